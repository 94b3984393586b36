// Dense layers, called by ../dense_layers.py, and all steps of clients whose network is a chain of them, called by
// ../dense_clients.py.
//
// x is [n, n_in], weights are [n_out, n_in], what is sent back is [n, n_out].
#include "products.h"

alignas(64) static thread_local float room[ROOM + DEPTH * 16];  // of a product, in the cache from one to the next

struct Sizes {  // of a layer and its batch, as Python gives them
    long n, n_in, n_out;
};

template <class Between = Nothing>
static void forward(const Sizes &s, const float *x, const float *w, const float *bias, float *y, Between between = {}) {
    product({x, s.n_in, 1}, {w, 1, s.n_in}, s.n, s.n_in, s.n_out, y, s.n_out, false, bias, 1, room, between);
}

static void by_input(const Sizes &s, const float *sent, const float *w, float *found) {
    product({sent, s.n_out, 1}, {w, s.n_in, 1}, s.n, s.n_out, s.n_in, found, s.n_in, false, 0, 1, room);
}

// w = keep * w + rate * the gradient by the weights
template <class Between = Nothing>
static void by_weight(const Sizes &s, const float *sent, const float *x, float *w, bool keep, float rate, Between between = {}) {
    product({sent, 1, s.n_out}, {x, s.n_in, 1}, s.n_out, s.n, s.n_in, w, s.n_in, keep, 0, rate, room, between);
}

// bias += rate * the gradient by the bias
static void by_bias(const Sizes &s, const float *sent, float *bias, float rate) {
    for (long b = 0; b < s.n; b++)
        for (long o = 0; o < s.n_out; o++) bias[o] += rate * sent[b * s.n_out + o];
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

// Samples of the next step, which come into the second cache bit by bit while this one is computed.
struct Ahead {
    const float *x;
    const long *drawn, *end;
    long n_in, place;
    double per_product, due;  // vectors that come with a multiplication, and that should have come

    void operator()(long n_products) {
        for (due += per_product * n_products; due >= 1 && drawn < end; due--) {
            __builtin_prefetch(x + *drawn * n_in + place, 0, 2);
            if ((place += WIDEST) >= n_in) place = 0, drawn++;
        }
    }
};

struct Layer {  // as Python gives it: its sizes, where its weights and its bias lie in a row (-1: none), and what follows
    long n_in, n_out, weight, bias, relu;
};

// One step of a chain on n samples: x holds them, then the outputs of every layer and two gradients by outputs.
static void step(const Layer *layers, long n_layers, long n, const long *labels, float *w, float rate, float *x, float *sent,
                 float *back, Ahead &ahead) {
    auto between = [&](long n_products) { ahead(n_products); };
    for (const Layer *l = layers; l < layers + n_layers; l++) {
        float *y = x + n * l->n_in, *bias = l->bias < 0 ? 0 : w + l->bias;
        forward({n, l->n_in, l->n_out}, x, w + l->weight, bias, y, between);
        if (l->relu) rectify(n * l->n_out, y);
        x = y;
    }
    error(n, layers[n_layers - 1].n_out, x, labels, sent);
    for (const Layer *l = layers + n_layers - 1; l >= layers; l--) {
        const Sizes sizes = {n, l->n_in, l->n_out};
        x -= n * l->n_in;
        if (l > layers) {  // before the weights move
            by_input(sizes, sent, w + l->weight, back);
            if (l[-1].relu) rectify_back(n * l->n_in, back, x);
        }
        by_weight(sizes, sent, x, w + l->weight, true, -rate, between);
        if (l->bias >= 0) by_bias(sizes, sent, w + l->bias, -rate);
        float *other = sent;
        sent = back, back = other;
    }
}

extern "C" {

long widest() { return WIDEST; }

// numbers of all: those of `Sizes`
void dense(Numbers n, Pointers p) {  // x, weight, bias or null, y
    forward(*(const Sizes *)n, p[0], p[1], p[2], p[3]);
}

void dense_by_input(Numbers n, Pointers p) {  // sent back, weight, found
    by_input(*(const Sizes *)n, p[0], p[1], p[2]);
}

void dense_by_weight(Numbers n, Pointers p) {  // sent back, x, found
    by_weight(*(const Sizes *)n, p[0], p[1], p[2], false, 1);
}

void dense_moved(Numbers n, Pointers p) {  // sent back, x, weight, minus the rate
    by_weight(*(const Sizes *)n, p[0], p[1], p[2], true, *p[3]);
}

void dense_by_bias(Numbers n, Pointers p) {  // sent back, found
    std::memset(p[1], 0, 4 * n[2]);
    by_bias(*(const Sizes *)n, p[0], p[1], 1);
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

// numbers: clients, parameters, steps between points, most samples, whether all steps take the same, layers, each layer
void clients(Numbers n, Pointers p) {  // all samples, their labels, points, of_row, draws, first draws, sizes, steps, rows,
                                       // out, room for numbers, room for labels, rate
    const long *labels = (long *)p[1], *of_row = (long *)p[3], *draws = (long *)p[4], *starts = (long *)p[5];
    const long *sizes = (long *)p[6], *steps = (long *)p[7], *rows = (long *)p[8], same = n[4];
    const Layer *layers = (const Layer *)(n + 6), *last = layers + n[5] - 1;
    long n_in = layers[0].n_in, widest = 0, outputs = 0;
    for (const Layer *l = layers; l <= last; l++) outputs += l->n_out, widest = l->n_out > widest ? l->n_out : widest;
    float *x = p[10], *sent = x + n[3] * (n_in + outputs), *back = sent + n[3] * widest;
    long *known = (long *)p[11];
    for (long k = 0; k < n[0]; k++) {
        long row = rows[k], size = sizes[row];
        const float *start = p[2] + of_row[row] * n[2];
        float *w = p[9] + row * n[1];
        std::memcpy(w, start, 4 * n[1]);
        for (long s = 0; s < steps[row] && size; s++) {
            const long *drawn = draws + starts[row] + (same ? 0 : s * size), *next = drawn + size;
            for (long b = 0; b < size && !(same && s); b++) {
                std::memcpy(x + b * n_in, p[0] + drawn[b] * n_in, 4 * n_in);
                known[b] = labels[drawn[b]];
            }
            const bool over = s + 1 == steps[row];
            if (over && k + 1 < n[0]) next = draws + starts[rows[k + 1]];
            const long n_next = over ? (k + 1 < n[0] ? sizes[rows[k + 1]] : 0) : same ? 0 : size;
            const double per_product = (double)n_next * n_in / WIDEST / ((double)size * n[1]);  // all with the forward pass
            Ahead ahead = {p[0], next, next + n_next, n_in, 0, per_product, 0};
            step(layers, n[5], size, known, w, *p[12], x, sent, back, ahead);
        }
        for (long i = 0; i < n[1]; i++) w[i] -= start[i];
    }
}
}
