// Dense layers for small batches, called by ../small_batch.py, and all steps of clients whose network is a chain of them,
// called by ../dense_clients.py: the weights are read as seldom as can be.
//
// x is [n, n_in], weights are [n_out, n_in], what is sent back is [n, n_out]. Samples are taken in groups of up to GROUP,
// whose sums stay in the registers.
#include "common.h"

const int GROUP = 10, L = WIDEST;
typedef Vec<L>::type vec;

// y[b, o] for B samples and O rows of the weights.
template <int B, int O>
static void products(const float *x, const float *w, const float *bias, float *y, long n_in, long n_out) {
    vec sum[B][O] = {};
    long i = 0;
    for (; i + L <= n_in; i += L) {
        vec row[O];
        for (int o = 0; o < O; o++) row[o] = load<L>(w + o * n_in + i);
        for (int b = 0; b < B; b++) {
            vec seen = load<L>(x + b * n_in + i);
            for (int o = 0; o < O; o++) sum[b][o] += seen * row[o];
        }
    }
    if (i < n_in)
        for (int b = 0; b < B; b++) {
            vec seen = load_some<L>(x + b * n_in + i, n_in - i);
            for (int o = 0; o < O; o++) sum[b][o] += seen * load_some<L>(w + o * n_in + i, n_in - i);
        }
    for (int b = 0; b < B; b++)
        for (int o = 0; o < O; o++) y[b * n_out + o] = total(sum[b][o]) + (bias ? bias[o] : 0);
}

// found[b, i] = sum over o of sent[b, o] w[o, i], for B samples and one or two vectors of inputs, or a part of one.
template <int B, int V>
static void backs(const float *sent, const float *w, float *found, long n_in, long n_out, long some) {
    vec sum[B][V] = {};
    for (long o = 0; o < n_out; o++)
        for (int v = 0; v < V; v++) {
            vec row = some ? load_some<L>(w + o * n_in, some) : load<L>(w + o * n_in + v * L);
            for (int b = 0; b < B; b++) sum[b][v] += sent[b * n_out + o] * row;
        }
    for (int b = 0; b < B; b++)
        for (int v = 0; v < V; v++)
            if (some) store_some<L>(found + b * n_in, sum[b][v], some);
            else store<L>(found + b * n_in + v * L, sum[b][v]);
}

// w[o, :] = keep w[o, :] + rate sum over b of sent[b, o] x[b, :], for B samples and O rows.
template <int B, int O>
static void outers(const float *sent, const float *x, float *w, long n_in, long n_out, float keep, float rate) {
    vec back[B][O];
    for (int b = 0; b < B; b++)
        for (int o = 0; o < O; o++) back[b][o] = vec{} + rate * sent[b * n_out + o];
    long i = 0;
    for (; i + L <= n_in; i += L) {
        vec sum[O];
        for (int o = 0; o < O; o++) sum[o] = keep ? load<L>(w + o * n_in + i) : vec{};
        for (int b = 0; b < B; b++) {
            vec seen = load<L>(x + b * n_in + i);
            for (int o = 0; o < O; o++) sum[o] += back[b][o] * seen;
        }
        for (int o = 0; o < O; o++) store<L>(w + o * n_in + i, sum[o]);
    }
    for (; i < n_in; i++)
        for (int o = 0; o < O; o++) {
            float sum = keep ? w[o * n_in + i] : 0;
            for (int b = 0; b < B; b++) sum += back[b][o][0] * x[b * n_in + i];
            w[o * n_in + i] = sum;
        }
}

#define GROUPS(n, call)                                                            \
    for (long first = 0; first < (n); first += GROUP) switch ((n) - first) {       \
            default: { const int B = 10; call; } break;                            \
            case 9: { const int B = 9; call; } break;                              \
            case 8: { const int B = 8; call; } break;                              \
            case 7: { const int B = 7; call; } break;                              \
            case 6: { const int B = 6; call; } break;                              \
            case 5: { const int B = 5; call; } break;                              \
            case 4: { const int B = 4; call; } break;                              \
            case 3: { const int B = 3; call; } break;                              \
            case 2: { const int B = 2; call; } break;                              \
            case 1: { const int B = 1; call; } break;                              \
        }

// Samples of the next step, which come into the second cache a few at a time while this one is computed.
struct Ahead {
    const float *x;
    const long *drawn;
    long n, n_in, at_once;
    void some() {
        for (long k = 0; k < at_once && n > 0; k++, drawn++, n--)
            for (long i = 0; i < n_in; i += L) __builtin_prefetch(x + *drawn * n_in + i, 0, 2);
    }
};

template <int B>
static void forward(long n_in, long n_out, const float *x, const float *w, const float *bias, float *y, Ahead *ahead = 0) {
    long o = 0;
    for (; o + 2 <= n_out; o += 2) {
        if (ahead) ahead->some();
        products<B, 2>(x, w + o * n_in, bias ? bias + o : 0, y + o, n_in, n_out);
    }
    for (; o < n_out; o++) products<B, 1>(x, w + o * n_in, bias ? bias + o : 0, y + o, n_in, n_out);
}

template <int B>
static void by_input(long n_in, long n_out, const float *sent, const float *w, float *found) {
    long i = 0;
    for (; i + 2 * L <= n_in; i += 2 * L) backs<B, 2>(sent, w + i, found + i, n_in, n_out, 0);
    for (; i + L <= n_in; i += L) backs<B, 1>(sent, w + i, found + i, n_in, n_out, 0);
    if (i < n_in) backs<B, 1>(sent, w + i, found + i, n_in, n_out, n_in - i);
}

template <int B>
static void by_weight(long n_in, long n_out, const float *sent, const float *x, float *w, float keep, float rate,
                      Ahead *ahead = 0) {
    long o = 0;
    for (; o + 2 <= n_out; o += 2) {
        if (ahead) ahead->some();
        outers<B, 2>(sent + o, x, w + o * n_in, n_in, n_out, keep, rate);
    }
    for (; o < n_out; o++) outers<B, 1>(sent + o, x, w + o * n_in, n_in, n_out, keep, rate);
}

static void rectify(long n, float *x) {
    for (long k = 0; k < n; k++) x[k] = x[k] < 0 ? 0 : x[k];
}

static void rectify_back(long n, float *sent, const float *out) {
    for (long k = 0; k < n; k++) sent[k] = out[k] <= 0 ? 0 : sent[k];
}

// found = (softmax - label) / n
static void error(long n, long n_classes, const float *scores, const long *labels, float *found) {
    for (long b = 0; b < n; b++, scores += n_classes, found += n_classes) {
        float most = scores[0], sum = 0;
        for (long c = 1; c < n_classes; c++) most = scores[c] > most ? scores[c] : most;
        for (long c = 0; c < n_classes; c++) sum += found[c] = std::exp(scores[c] - most);
        for (long c = 0; c < n_classes; c++) found[c] = (found[c] / sum - (c == labels[b])) / n;
    }
}

struct Layer {  // as Python gives it: its sizes, where its weights and its bias lie in a row (-1: none), and what follows
    long n_in, n_out, weight, bias, relu;
};

// One step of a chain on n samples: room holds them, then the outputs of every layer and two gradients by outputs.
static void step(const Layer *layers, long n_layers, long n, const long *labels, float *w, float rate, float *room, float *sent,
                 float *back, Ahead *ahead) {
    const float *x = room;
    for (const Layer *l = layers; l < layers + n_layers; l++) {
        float *y = (float *)x + n * l->n_in, *bias = l->bias < 0 ? 0 : w + l->bias;
        GROUPS(n, forward<B>(l->n_in, l->n_out, x + first * l->n_in, w + l->weight, bias, y + first * l->n_out, ahead))
        if (l->relu) rectify(n * l->n_out, y);
        x = y;
    }
    error(n, layers[n_layers - 1].n_out, x, labels, sent);
    for (const Layer *l = layers + n_layers - 1; l >= layers; l--) {
        x -= n * l->n_in;
        if (l > layers) {  // before the weights move
            GROUPS(n, by_input<B>(l->n_in, l->n_out, sent + first * l->n_out, w + l->weight, back + first * l->n_in))
            if (l[-1].relu) rectify_back(n * l->n_in, back, x);
        }
        GROUPS(n, by_weight<B>(l->n_in, l->n_out, sent + first * l->n_out, x + first * l->n_in, w + l->weight, 1, -rate, ahead))
        if (l->bias >= 0)
            for (long b = 0; b < n; b++)
                for (long o = 0; o < l->n_out; o++) w[l->bias + o] -= rate * sent[b * l->n_out + o];
        float *other = sent;
        sent = back, back = other;
    }
}

extern "C" {

// numbers: samples, n_in, n_out
void dense(Numbers n, Pointers p) {  // x, weight, bias or null, y
    GROUPS(n[0], forward<B>(n[1], n[2], p[0] + first * n[1], p[1], p[2], p[3] + first * n[2]))
}

void dense_by_input(Numbers n, Pointers p) {  // sent back, weight, found
    GROUPS(n[0], by_input<B>(n[1], n[2], p[0] + first * n[2], p[1], p[2] + first * n[1]))
}

void dense_by_weight(Numbers n, Pointers p) {  // sent back, x, found
    GROUPS(n[0], by_weight<B>(n[1], n[2], p[0] + first * n[2], p[1] + first * n[1], p[2], first, 1))
}

void dense_moved(Numbers n, Pointers p) {  // sent back, x, weight, minus the rate
    GROUPS(n[0], by_weight<B>(n[1], n[2], p[0] + first * n[2], p[1] + first * n[1], p[2], 1, *p[3]))
}

void dense_by_bias(Numbers n, Pointers p) {  // sent back, found
    std::memset(p[1], 0, 4 * n[2]);
    for (long b = 0; b < n[0]; b++)
        for (long o = 0; o < n[2]; o++) p[1][o] += p[0][b * n[2] + o];
}

void relu(Numbers n, Pointers p) {  // x, changed
    rectify(n[0], p[0]);
}

void relu_back(Numbers n, Pointers p) {  // sent back, changed; output
    rectify_back(n[0], p[0], p[1]);
}

// numbers: samples, classes
void class_error(Numbers n, Pointers p) {  // scores, labels as 64-bit integers, found
    error(n[0], n[1], p[0], (const long *)p[1], p[2]);
}

// numbers: clients, parameters, steps between points, most samples, layers, each layer
void clients(Numbers n, Pointers p) {  // all samples, their labels, points, of_row, draws, first draws, sizes, steps, rows,
                                       // out, room for numbers, room for labels, rate
    const long *labels = (long *)p[1], *of_row = (long *)p[3], *draws = (long *)p[4], *starts = (long *)p[5];
    const long *sizes = (long *)p[6], *steps = (long *)p[7], *rows = (long *)p[8];
    const Layer *layers = (const Layer *)(n + 5), *last = layers + n[4] - 1;
    long n_in = layers[0].n_in, widest = 0;
    for (const Layer *l = layers; l <= last; l++) widest = l->n_out > widest ? l->n_out : widest;
    float *room = p[10], *sent = room + n[3] * n_in;
    for (const Layer *l = layers; l <= last; l++) sent += n[3] * l->n_out;
    float *back = sent + n[3] * widest;
    long *known = (long *)p[11];
    for (long k = 0; k < n[0]; k++) {
        long row = rows[k], size = sizes[row];
        const float *start = p[2] + of_row[row] * n[2];
        float *w = p[9] + row * n[1];
        std::memcpy(w, start, 4 * n[1]);
        for (long s = 0; s < steps[row]; s++) {
            const long *drawn = draws + starts[row] + s * size;
            for (long b = 0; b < size; b++) {
                std::memcpy(room + b * n_in, p[0] + drawn[b] * n_in, 4 * n_in);
                known[b] = labels[drawn[b]];
            }
            Ahead ahead = {p[0], drawn + size, s + 1 < steps[row] ? size : 0, n_in, size / widest + 1};
            if (s + 1 == steps[row] && k + 1 < n[0]) ahead.drawn = draws + starts[rows[k + 1]], ahead.n = sizes[rows[k + 1]];
            step(layers, n[4], size, known, w, *p[12], room, sent, back, &ahead);
        }
        for (long i = 0; i < n[1]; i++) w[i] -= start[i];
    }
}
}
