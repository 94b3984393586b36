// A layer of LSTM cells over all places of a sequence, and its gradients. Weights are packed once for all places.
//
// Gates lie as PyTorch has them: into the cell, of what it forgets, what is new, and out of it, each `width` numbers.
#pragma once
#include "products.h"
#include "rows.h"

struct Cells {  // as Python gives it; what is sent back has steps between places and samples
    long places, n, n_in, width, reverse, sent_place, sent_sample;

    long at(long turn) const { return reverse ? places - 1 - turn : turn; }
    long gates() const { return 4 * width; }
};


// The right matrix in strips, and products with it: a strip stays in the cache while all rows meet it.
static void in_strips(Matrix right, long depth, long columns, float *to) {
    for (long c = 0; c < columns; c += STRIP)
        packed({right.at + c * right.right, right.down, right.right}, depth, columns - c < STRIP ? columns - c : STRIP,
               to + c * depth);
}

static void by_strips(const float *left, const float *strips, long rows, long depth, long columns, float *into, bool keep) {
    for (long c = 0; c < columns; c += STRIP)
        over_tiles(rows, [&](long r, long high) {
            any_tile({left + r * depth, depth, 1}, high, strips + c * depth, STRIP, depth, into + r * columns + c, columns,
                     columns - c < STRIP ? columns - c : STRIP, keep, 0, 1);
        });
}

// Vectors of a row, of which the last may be shorter.
struct Part {
    long at, some;

    wide of(const float *row) const { return some == WIDEST ? load<WIDEST>(row + at) : load_some<WIDEST>(row + at, some); }
    void put(float *row, wide value) const {
        if (some == WIDEST) store<WIDEST>(row + at, value);
        else store_some<WIDEST>(row + at, value, some);
    }
};

template <class Work>
static void in_parts(long n, Work work) {
    over(n, [&](long k) { work(Part{k, WIDEST}); }, [&](long k, long some) { work(Part{k, some}); });
}

// room: strips of the recurrent weights, biases, and the room of a product.
static void lstm_forward(const Cells &s, const float *x, const float *w, const float *u, const float *b, const float *b_too,
                         const float *h0, const float *c0, float *y, float *h_end, float *c_end, float *gates, float *cells,
                         float *room) {
    const long four = s.gates(), H = s.width, each = s.n * H;
    float *strips = room, *bias = strips + (four + STRIP) * H;
    for (long k = 0; k < four; k++) bias[k] = b[k] + b_too[k];
    product({x, s.n_in, 1}, {w, 1, s.n_in}, s.places * s.n, s.n_in, four, gates, four, false, bias, 1, bias + four);
    in_strips({u, 1, H}, H, four, strips);
    const float *h = h0, *c = c0;
    for (long turn = 0; turn < s.places; turn++) {
        const long t = s.at(turn);
        by_strips(h, strips, s.n, H, four, gates + t * s.n * four, true);
        for (long i = 0; i < s.n; i++) {
            float *gate = gates + (t * s.n + i) * four;
            in_parts(H, [&](Part k) {
                wide in = sigmoid(k.of(gate)), keep = sigmoid(k.of(gate + H));
                wide fresh = hyperbolic(k.of(gate + 2 * H)), out = sigmoid(k.of(gate + 3 * H));
                wide cell = keep * k.of(c + i * H) + in * fresh;
                k.put(gate, in), k.put(gate + H, keep), k.put(gate + 2 * H, fresh), k.put(gate + 3 * H, out);
                k.put(cells + t * each + i * H, cell);
                k.put(y + t * each + i * H, out * hyperbolic(cell));
            });
        }
        h = y + t * each, c = cells + t * each;
    }
    std::memcpy(h_end, h, 4 * each);
    std::memcpy(c_end, c, 4 * each);
}

// Gradients take the place of the gates. `by_h` and `by_c` are those of the state, at last of the first one; they begin with
// what was sent back to the last one, which may be null, as may be what is sent to the outputs.
static void lstm_places_back(const Cells &s, const float *sent, const float *u, const float *c0, const float *sent_h,
                             const float *sent_c, float *gates, const float *cells, float *by_h, float *by_c, float *strips) {
    const long four = s.gates(), H = s.width, each = s.n * H;
    if (sent_h) std::memcpy(by_h, sent_h, 4 * each);
    else std::memset(by_h, 0, 4 * each);
    if (sent_c) std::memcpy(by_c, sent_c, 4 * each);
    else std::memset(by_c, 0, 4 * each);
    in_strips({u, H, 1}, four, H, strips);
    for (long turn = s.places - 1; turn >= 0; turn--) {
        const long t = s.at(turn);
        const float *before = turn ? cells + s.at(turn - 1) * each : c0;
        for (long i = 0; i < s.n; i++) {
            float *gate = gates + (t * s.n + i) * four;
            const float *back = sent ? sent + t * s.sent_place + i * s.sent_sample : 0;
            in_parts(H, [&](Part k) {
                wide in = k.of(gate), keep = k.of(gate + H), fresh = k.of(gate + 2 * H), out = k.of(gate + 3 * H);
                wide seen = hyperbolic(k.of(cells + t * each + i * H)), slope = k.of(by_h + i * H);
                if (back) slope += k.of(back);
                wide cell = k.of(by_c + i * H) + slope * out * (1.0f - seen * seen);
                k.put(gate, cell * fresh * in * (1.0f - in));
                k.put(gate + H, cell * k.of(before + i * H) * keep * (1.0f - keep));
                k.put(gate + 2 * H, cell * in * (1.0f - fresh * fresh));
                k.put(gate + 3 * H, slope * seen * out * (1.0f - out));
                k.put(by_c + i * H, cell * keep);
            });
        }
        by_strips(gates + t * s.n * four, strips, s.n, four, H, by_h, false);
    }
}

// By the weights of `four` gates: what each place saw, times what was sent back to its gates, by what comes in and by the state.
static void cell_weights_back(const Cells &s, long four, const float *x, const float *h0, const float *y, const float *gates,
                              const float *by_state, float *by_w, float *by_u, float *by_b, float *by_b_too, float *room) {
    const long H = s.width, each = s.n * H, first = s.at(0) * s.n * four;
    if (by_w) product({gates, 1, four}, {x, s.n_in, 1}, four, s.places * s.n, s.n_in, by_w, s.n_in, false, 0, 1, room);
    if (by_u) {
        const float *later = by_state + (s.reverse ? 0 : s.n * four), *seen = y + (s.reverse ? each : 0);
        product({by_state + first, 1, four}, {h0, H, 1}, four, s.n, H, by_u, H, false, 0, 1, room);
        product({later, 1, four}, {seen, H, 1}, four, (s.places - 1) * s.n, H, by_u, H, true, 0, 1, room);
    }
    if (by_b) sums_over(1, s.places * s.n, four, 1, gates, by_b);
    if (by_b_too) sums_over(1, s.places * s.n, four, 1, by_state, by_b_too);
}
