// Products of matrices, attention, LSTM cells, norms and GELU of rows, dropout, scores, called by sequences.py and others.
#include "attention.h"
#include "draws.h"
#include "entries.h"
#include "gru.h"
#include "lstm.h"
#include "scores.h"

static long place(const long *steps, long sample, long head) { return sample * steps[0] + head * steps[1]; }

extern "C" {

long widest() { return WIDEST; }

// numbers: rows, depth, columns, steps down and right of both, steps between rows of the result, whether it is added to
void matrix_product(Numbers n, Pointers p) {  // left, right, result, what it begins with or null, rate, room
    product({p[0], n[3], n[4]}, {p[1], n[5], n[6]}, n[0], n[1], n[2], p[2], n[7], n[8], p[3], *p[4], p[5]);
}

// numbers: matrices, rows, depth, columns, then steps between matrices, down and right, of left, right and result
void matrix_products(Numbers n, Pointers p) {  // left, right, result, room
    const long rows = n[1], depth = n[2], columns = n[3], *left = n + 4, *right = n + 7, *into = n + 10;
    const bool ready = right[2] == 1 && columns % WIDEST == 0;  // no copy needed
    for (long k = 0; k < n[0]; k++) {
        Matrix a = {p[0] + k * left[0], left[1], left[2]}, b = {p[1] + k * right[0], right[1], right[2]};
        if (ready) direct(a, rows, b.at, b.down, depth, p[2] + k * into[0], into[1], columns, 1);
        else product(a, b, rows, depth, columns, p[2] + k * into[0], into[1], false, 0, 1, p[3]);
    }
}

// numbers: rows, width, whether rows without any number above -infinity are zeros
void softmax(Numbers n, Pointers p) {  // x, y
    softmax_rows(n[0], n[1], n[2], p[0], p[1]);
}

void softmax_back(Numbers n, Pointers p) {  // sent back, y, found
    softmax_rows_back(n[0], n[1], p[0], p[1], p[2]);
}

// numbers: those of `Scored`
void cross_entropy_back(Numbers n, Pointers p) {  // scores, labels as 64-bit integers, sent back, found
    cross_entropy_rows(*(const Scored *)n, p[0], (const long *)p[1], p[2], p[3]);
}

// numbers: the seed
void seeded(Numbers n, Pointers p) {  // a twister
    ((Twister *)p[0])->seed((uint32_t)n[0]);
}

// numbers: entries, and 2^53 times the probability of each to stay
void dropout(Numbers n, Pointers p) {  // a twister, what stays is, found
    kept_or_dropped(*(Twister *)p[0], n[0], n[1], *p[1], p[2]);
}

// numbers: those of `Entries`
void entries(Numbers n, Pointers p) {  // rate, found, one, other
    entries_found(*(const Entries *)n, *p[0], p[1], p[2], p[3]);
}

// numbers: those of `Heads`
void attention(Numbers n, Pointers p) {  // scale, q, k, v, out, logarithms, room
    const Heads &h = *(const Heads *)n;
    for (long i = 0; i < h.n; i++)
        for (long a = 0; a < h.heads; a++)
            attend(h, *p[0], p[1] + place(h.q, i, a), p[2] + place(h.k, i, a), p[3] + place(h.v, i, a),
                   p[4] + place(h.out, i, a), p[5] + place(h.log, i, a), p[6]);
}

// numbers: those of `Heads` with steps of what is sent back for `out`, then steps of what is found by q, k and v
void attention_back(Numbers n, Pointers p) {  // scale, sent back, q, k, v, logarithms, by q, by k, by v, room
    const Heads &h = *(const Heads *)n;
    const long *by_q = n + sizeof(Heads) / sizeof(long), *by_k = by_q + 3, *by_v = by_k + 3;
    for (long i = 0; i < h.n; i++)
        for (long a = 0; a < h.heads; a++)
            attend_back(h, *p[0], p[1] + place(h.out, i, a), h.out, p[2] + place(h.q, i, a), p[3] + place(h.k, i, a),
                        p[4] + place(h.v, i, a), p[5] + place(h.log, i, a), p[6] + place(by_q, i, a), by_q,
                        p[7] + place(by_k, i, a), by_k, p[8] + place(by_v, i, a), by_v, p[9]);
}

// numbers: rows, width
void layer_norm(Numbers n, Pointers p) {  // eps, x, gamma or null, beta or null, y, mean, rstd
    layer_norm_rows(n[0], n[1], *p[0], p[1], p[2], p[3], p[4], p[5], p[6]);
}

void layer_norm_by_input(Numbers n, Pointers p) {  // sent back, x, mean, rstd, gamma, and found, by gamma, by beta or null
    layer_norm_back(n[0], n[1], p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]);
}

// numbers: how many, and whether the slopes take the place of x
void gelu(Numbers n, Pointers p) {  // x, y
    bent_rows(n[0], p[0], p[1], n[1], gelu_of);
}

void gelu_tanh(Numbers n, Pointers p) {  // the same
    bent_rows(n[0], p[0], p[1], n[1], gelu_tanh_of);
}

void silu(Numbers n, Pointers p) {
    bent_rows(n[0], p[0], p[1], n[1], silu_of);
}

// numbers: before the axis, along it, behind it
void axis_sum(Numbers n, Pointers p) {  // rate, x, found
    sums_over(n[0], n[1], n[2], *p[0], p[1], p[2]);
}

// Whether a word is one of the vocabulary; the list fails if not.
static inline bool known(long word, long vocabulary) {
    if (word >= 0 && word < vocabulary) return true;
    out_of_range = 1;
    return false;
}

// numbers: words, width, vocabulary
void embedding(Numbers n, Pointers p) {  // vectors, words as 64-bit integers, found
    const long *words = (const long *)p[1];
    for (long i = 0; i < n[0]; i++)
        if (known(words[i], n[2])) std::memcpy(p[2] + i * n[1], p[0] + words[i] * n[1], 4 * n[1]);
}

// numbers: samples, places, width, steps between both of words and of what is sent back, vocabulary
void embedding_moved(Numbers n, Pointers p) {  // vectors, words as 64-bit integers, sent back, rate
    const long *words = (const long *)p[1], width = n[2];
    for (long i = 0; i < n[0]; i++)
        for (long j = 0; j < n[1]; j++) {
            const long word = words[i * n[3] + j * n[4]];
            if (!known(word, n[7])) continue;
            float *vector = p[0] + word * width;
            const float *sent = p[2] + i * n[5] + j * n[6], rate = *p[3];
            for (long k = 0; k < width; k++) vector[k] += rate * sent[k];
        }
}

// numbers: those of `Cells`
void lstm(Numbers n, Pointers p) {  // x, both weights, both biases, h, c, outputs, last h, last c, gates, cells, room
    const Cells &s = *(const Cells *)n;
    lstm_forward(s, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10], p[11], p[12]);
}

// x, both weights, h, c, outputs, sent to outputs, to the last h and c or null, gates, cells; found by x or null, by both
// weights and biases or null, by h, by c; room
void lstm_back(Numbers n, Pointers p) {
    const Cells &s = *(const Cells *)n;
    float *gates = p[9], *room = p[18];
    lstm_places_back(s, p[6], p[2], p[4], p[7], p[8], gates, p[10], p[16], p[17], room);
    cell_weights_back(s, s.gates(), p[0], p[3], p[5], gates, gates, p[12], p[13], p[14], p[15], room);
    if (p[11])
        product({gates, s.gates(), 1}, {p[1], s.n_in, 1}, s.places * s.n, s.gates(), s.n_in, p[11], s.n_in, false, 0, 1, room);
}

// numbers: those of `Cells`, and which kind they are
void recurrence(Numbers n, Pointers p) {  // x, both weights, both biases or null, h, outputs, gates, by the state, room
    recurrence_forward(*(const Cells *)n, n[7], p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9]);
}

// sent to outputs, x, both weights, h, outputs, gates, by the state; found by x or null, by both weights, both biases or
// null, by h, by the gates, by those of the state; room
void recurrence_back(Numbers n, Pointers p) {
    const Cells &s = *(const Cells *)n;
    const long across = gates_of(n[7]) * s.width;
    float *by_gates = p[14], *by_state = p[15], *room = p[16];
    recurrence_places_back(s, n[7], p[0], p[3], p[4], p[5], p[6], p[7], by_gates, by_state, p[13], room);
    cell_weights_back(s, across, p[1], p[4], p[5], by_gates, by_state, p[9], p[10], p[11], p[12], room);
    if (p[8]) product({by_gates, across, 1}, {p[2], s.n_in, 1}, s.places * s.n, across, s.n_in, p[8], s.n_in, false, 0, 1, room);
}

// numbers: how many
void cleared(Numbers n, Pointers p) { std::memset(p[0], 0, 4 * n[0]); }
}
