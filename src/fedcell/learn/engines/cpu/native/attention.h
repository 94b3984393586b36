// Attention of short sequences, one head of a sample after another: all weights of a head are there at a time.
#pragma once
#include "products.h"
#include "rows.h"

struct Heads {  // as Python gives it, with steps between samples, heads and places of a sequence
    long n, heads, queries, keys, width, causal;
    long q[3], k[3], v[3], out[3], log[3];

    long padded() const { return (keys + WIDEST - 1) / WIDEST * WIDEST; }
    long seen(long query) const { return causal && query + 1 < keys ? query + 1 : keys; }
};

// Rows of a sequence as the columns of a matrix, [width, padded], with zeros beside them.
static void columns_of(const Heads &h, const float *rows, long step, float *to) {
    const long padded = h.padded(), full = h.keys / WIDEST * WIDEST;
    float rest[WIDEST * WIDEST];
    for (long d = 0; d < h.width; d += WIDEST) {
        for (long j = 0; j < full; j += WIDEST) turned(rows + j * step + d, step, to + d * padded + j, padded);
        if (full == h.keys) continue;
        std::memset(rest, 0, sizeof rest);
        for (long j = full; j < h.keys; j++) std::memcpy(rest + (j - full) * WIDEST, rows + j * step + d, 4 * WIDEST);
        turned(rest, WIDEST, to + d * padded + full, padded);
    }
}

// into = rate * left right, with rows of `right` that need no copy.
static void direct(Matrix left, long rows, const float *right, long step, long depth, float *into, long apart, long columns,
                   float rate) {
    over_tiles(rows, [&](long r, long high) {
        for (long c = 0; c < columns; c += STRIP)
            any_tile({left.at + r * left.down, left.down, left.right}, high, right + c, step, depth, into + r * apart + c, apart,
                     columns - c < STRIP ? columns - c : STRIP, false, 0, rate);
    });
}

// The numbers of a vector that begins at a place of a row, with others beyond the end.
static inline wide until(wide v, long place, long end, float beyond) {
    whole at;
    for (int k = 0; k < WIDEST; k++) at[k] = k;
    return at < whole{} + (int)(end - place) ? v : wide{} + beyond;
}

// The weights of a row of scores, and the logarithm of their sum before they are scaled.
static float softmax_row(float *row, long seen, long padded) {
    wide top = wide{} - INFINITY, sum = {};
    for (long j = 0; j < padded; j += WIDEST) {
        wide score = until(load<WIDEST>(row + j), j, seen, -INFINITY);
        top = top > score ? top : score;
    }
    const float most = highest(top);
    for (long j = 0; j < padded; j += WIDEST) {
        wide weight = until(exponential(load<WIDEST>(row + j) - most), j, seen, 0);
        store<WIDEST>(row + j, weight);
        sum += weight;
    }
    const float scale = total(sum), part = 1 / scale;
    for (long j = 0; j < padded; j += WIDEST) store<WIDEST>(row + j, load<WIDEST>(row + j) * part);
    return most + std::log(scale);
}

// room: the keys as columns, and the weights.
static void attend(const Heads &h, float scale, const float *q, const float *k, const float *v, float *out, float *log,
                   float *room) {
    const long padded = h.padded();
    float *turned_keys = room, *weights = room + h.width * padded;
    columns_of(h, k, h.k[2], turned_keys);
    direct({q, h.q[2], 1}, h.queries, turned_keys, padded, h.width, weights, padded, padded, scale);
    for (long i = 0; i < h.queries; i++) log[i * h.log[2]] = softmax_row(weights + i * padded, h.seen(i), padded);
    direct({weights, padded, 1}, h.queries, v, h.v[2], h.keys, out, h.out[2], h.width, 1);
}

// With P the weights and dP = sent v^T: by scores it is scale P (dP - row sums of P dP).
// room: keys and values as columns, the weights, the gradients by scores.
static void attend_back(const Heads &h, float scale, const float *sent, const long *sent_steps, const float *q, const float *k,
                        const float *v, const float *log, float *by_q, const long *q_steps, float *by_k, const long *k_steps,
                        float *by_v, const long *v_steps, float *room) {
    const long padded = h.padded(), step = sent_steps[2];
    float *turned_keys = room, *turned_values = turned_keys + h.width * padded;
    float *weights = turned_values + h.width * padded, *back = weights + h.queries * padded;
    columns_of(h, k, h.k[2], turned_keys);
    columns_of(h, v, h.v[2], turned_values);
    direct({q, h.q[2], 1}, h.queries, turned_keys, padded, h.width, weights, padded, padded, scale);
    direct({sent, step, 1}, h.queries, turned_values, padded, h.width, back, padded, padded, 1);
    for (long i = 0; i < h.queries; i++) {
        float *row = weights + i * padded, *by_row = back + i * padded, level = log[i * h.log[2]];
        wide sum = {};
        for (long j = 0; j < padded; j += WIDEST) {
            wide weight = until(exponential(load<WIDEST>(row + j) - level), j, h.seen(i), 0);
            store<WIDEST>(row + j, weight);
            sum += weight * load<WIDEST>(by_row + j);
        }
        const float mean = total(sum);
        for (long j = 0; j < padded; j += WIDEST)
            store<WIDEST>(by_row + j, scale * load<WIDEST>(row + j) * (load<WIDEST>(by_row + j) - mean));
    }
    direct({weights, 1, padded}, h.keys, sent, step, h.queries, by_v, v_steps[2], h.width, 1);
    direct({back, padded, 1}, h.queries, k, h.k[2], h.keys, by_q, q_steps[2], h.width, 1);
    direct({back, 1, padded}, h.keys, q, h.q[2], h.queries, by_k, k_steps[2], h.width, 1);
}
