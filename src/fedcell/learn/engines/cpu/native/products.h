// Products of matrices that lie in any order, as sums of outer products whose results stay in the registers.
#pragma once
#include "common.h"

#if defined(__AVX512F__)
const int ROWS = 14;
#elif defined(__AVX__)
const int ROWS = 6;
#else
const int ROWS = 12;
#endif
const int BESIDE = 2, STRIP = BESIDE * WIDEST;  // vectors, and numbers, of a row of results that are worked on at a time
const long CROWDED = 256;                       // numbers between rows that share a place in the cache with many others
const long DEPTH = 512, ROOM = 65536;           // terms of a sum, and numbers of the right matrix, that are copied at a time

// Where the entry (row, column) lies: at row * down + column * right.
struct Matrix {
    const float *at;
    long down, right;
};

// into[r, :] = keep * into[r, :] + begin + rate * sum over k of left[r, k] right[k, :], for R rows and V vectors of which
// the last has `some` numbers. The rows of `right` are `step` apart, those of `into` are `apart`.
template <int R, int V>
static void tile(Matrix left, const float *right, long step, long depth, float *into, long apart, long some, bool keep,
                 const float *begin, float rate) {
    wide sum[R][V] = {};
    const float *groups[(R + 4) / 5];
    for (int g = 0; g < (R + 4) / 5; g++) groups[g] = left.at + 5 * g * left.down;
    const long down = left.down;
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) __builtin_prefetch(into + r * apart + v * WIDEST, 1);
    for (long k = 0; k < depth; k++, right += step) {
        wide row[V];
        for (int v = 0; v < V; v++) row[v] = load<WIDEST>(right + v * WIDEST);
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) {
            float factor = groups[r / 5][r % 5 * down];
            for (int v = 0; v < V; v++) sum[r][v] += factor * row[v];
        }
        for (int g = 0; g < (R + 4) / 5; g++) groups[g] += left.right;
    }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) {
            float *to = into + r * apart + v * WIDEST;
            bool part = v == V - 1 && some < WIDEST;
            wide found = rate * sum[r][v];
            if (begin) found += part ? load_some<WIDEST>(begin + v * WIDEST, some) : load<WIDEST>(begin + v * WIDEST);
            if (keep) found += part ? load_some<WIDEST>(to, some) : load<WIDEST>(to);
            if (part) store_some<WIDEST>(to, found, some);
            else store<WIDEST>(to, found);
        }
}

template <int V>
static void tile_of(long rows, Matrix left, const float *right, long step, long depth, float *into, long apart, long some,
                    bool keep, const float *begin, float rate) {
    switch (rows) {
#define CASE(R) \
    case R: \
        if (R <= ROWS) tile<R <= ROWS ? R : 1, V>(left, right, step, depth, into, apart, some, keep, begin, rate); \
        break;
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14)
#undef CASE
    }
}

// A tile of up to ROWS x STRIP results.
static void any_tile(Matrix left, long rows, const float *right, long step, long depth, float *into, long apart, long columns,
                     bool keep, const float *begin, float rate) {
    if (columns > WIDEST) tile_of<2>(rows, left, right, step, depth, into, apart, columns - WIDEST, keep, begin, rate);
    else tile_of<1>(rows, left, right, step, depth, into, apart, columns, keep, begin, rate);
}

// Does something for all rows in groups of up to ROWS that are about equally high.
template <class Work>
static void over_tiles(long rows, Work work) {
    long tiles = (rows + ROWS - 1) / ROWS;
    for (long t = 0; t < tiles; t++) {
        long first = rows * t / tiles;
        work(first, rows * (t + 1) / tiles - first);
    }
}

// A square of WIDEST x WIDEST numbers, turned: four times, each row of the upper half is shuffled with one of the lower.
static void turned(const float *from, long step, float *to, long apart) {
#ifdef __AVX512F__
    const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i high = _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
    __m512 a[16], b[16];
    for (int r = 0; r < 16; r++) a[r] = _mm512_loadu_ps(from + r * step);
    for (int turn = 0; turn < 4; turn += 2) {
        for (int r = 0; r < 8; r++) {
            b[2 * r] = _mm512_permutex2var_ps(a[r], low, a[r + 8]);
            b[2 * r + 1] = _mm512_permutex2var_ps(a[r], high, a[r + 8]);
        }
        for (int r = 0; r < 8; r++) {
            a[2 * r] = _mm512_permutex2var_ps(b[r], low, b[r + 8]);
            a[2 * r + 1] = _mm512_permutex2var_ps(b[r], high, b[r + 8]);
        }
    }
    for (int r = 0; r < 16; r++) _mm512_storeu_ps(to + r * apart, a[r]);
#else
    for (int r = 0; r < WIDEST; r++)
        for (int c = 0; c < WIDEST; c++) to[c * apart + r] = from[r * step + c];
#endif
}

// `depth` rows of up to STRIP columns, one after another in `to`, and zeros beside them.
static void packed(Matrix right, long depth, long columns, float *to) {
    if (right.right == 1 && columns == STRIP) {
        for (long k = 0; k < depth; k++) std::memcpy(to + k * STRIP, right.at + k * right.down, 4 * STRIP);
        return;
    }
    if (columns < STRIP) std::memset(to, 0, 4 * STRIP * depth);
    if (right.down == 1) {
        long k = 0;
        for (; k + WIDEST <= depth; k += WIDEST) {
            long c = 0;
            for (; c + WIDEST <= columns; c += WIDEST)
                turned(right.at + k + c * right.right, right.right, to + k * STRIP + c, STRIP);
            for (; c < columns; c++)
                for (int e = 0; e < WIDEST; e++) to[(k + e) * STRIP + c] = right.at[k + e + c * right.right];
        }
        for (; k < depth; k++)
            for (long c = 0; c < columns; c++) to[k * STRIP + c] = right.at[k + c * right.right];
        return;
    }
    for (long k = 0; k < depth; k++)
        for (long c = 0; c < columns; c++) to[k * STRIP + c] = right.at[k * right.down + c * right.right];
}

// Columns that lie so far apart that few of them fit into the cache at a time, copied side by side.
static Matrix close_by(Matrix left, long rows, long depth, float *to) {
    for (long k = 0; k < depth; k++) store<WIDEST>(to + k * WIDEST, load_some<WIDEST>(left.at + k * left.right, rows));
    return {to, 1, WIDEST};
}

// into = keep * into + begin + rate * left right; the rows of `into` are `apart`; room holds ROOM + DEPTH x WIDEST numbers.
//
// A block of the right matrix is copied into strips that stay in the cache, and each group of rows meets all of them.
static void product(Matrix left, Matrix right, long rows, long depth, long columns, float *into, long apart, bool keep,
                    const float *begin, float rate, float *room) {
    for (long k = 0; k < depth; k += DEPTH) {
        const long deep = depth - k < DEPTH ? depth - k : DEPTH, broad = ROOM / deep / STRIP * STRIP;
        for (long first = 0; first < columns; first += broad) {
            const long last = first + broad < columns ? first + broad : columns;
            auto wide_of = [&](long c) { return last - c < STRIP ? last - c : STRIP; };
            for (long c = first; c < last; c += STRIP)
                packed({right.at + k * right.down + c * right.right, right.down, right.right}, deep, wide_of(c),
                       room + (c - first) * deep);
            over_tiles(rows, [&](long r, long high) {
                Matrix from = {left.at + r * left.down + k * left.right, left.down, left.right};
                if (left.down == 1 && left.right % CROWDED == 0 && last - first > STRIP)
                    from = close_by(from, high, deep, room + ROOM);
                for (long c = first; c < last; c += STRIP)
                    any_tile(from, high, room + (c - first) * deep, STRIP, deep, into + r * apart + c, apart, wide_of(c),
                             keep || k, begin && !k ? begin + c : 0, rate);
            });
        }
    }
}
