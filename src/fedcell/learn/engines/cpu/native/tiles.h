// Tiles of a product of matrices, as sums of outer products that stay in the registers, and matrices laid out for them.
#pragma once
#include <type_traits>
#include "common.h"
#include "squares.h"

#if defined(__AVX512F__)
const int ROWS = 14;
#elif defined(__AVX__)
const int ROWS = 6;
#else
const int ROWS = 12;
#endif
const int BESIDE = 2, STRIP = BESIDE * WIDEST;  // vectors, and numbers, of a row of results that are worked on at a time

// Where the entry (row, column) lies: at row * down + column * right.
struct Matrix {
    const float *at;
    long down, right;

    Matrix from(long row, long column) const { return {at + row * down + column * right, down, right}; }
    Matrix turned() const { return {at, right, down}; }
};

// The first n of WIDEST numbers, or all.
static inline wide load_part(const float *from, long n) {
#ifndef __AVX512F__
    if (n == WIDEST) return load<WIDEST>(from);
#endif
    return load_some<WIDEST>(from, n);
}

static inline void store_part(float *to, wide value, long n) {
#ifndef __AVX512F__
    if (n == WIDEST) return store<WIDEST>(to, value);
#endif
    store_some<WIDEST>(to, value, n);
}

#ifdef __clang__
#define ALONE __attribute__((noinline))
#else
#define ALONE __attribute__((noinline, noclone))  // a compiler that knows some of the numbers shuffles them into vectors
#endif

// For all vectors of a tile, without a loop, so that an array of vectors lies in registers.
#define EVERY \
    _Pragma("GCC unroll 16") for (int r = 0; r < R; r++) \
    _Pragma("GCC unroll 4") for (int v = 0; v < V; v++)

// into[r, :] = keep * into[r, :] + begin + rate * sum over k of left[r, k] right[k, :], for R rows and V vectors of which
// the last has `some` numbers. The rows of `right` are `step` apart, those of `into` are `apart`.
template <int R, int V>
ALONE static void tile(Matrix left, const float *right, long step, long depth, float *into, long apart, long some, bool keep,
                 const float *begin, float rate) {
    wide sum[R][V];
    auto n = [some](int v) { return v == V - 1 ? some : WIDEST; };
    const bool early = rate == 1;
    EVERY sum[r][v] = wide{};
    if (early && begin) EVERY sum[r][v] = load_part(begin + v * WIDEST, n(v));
    if (keep) EVERY __builtin_prefetch(into + r * apart + v * WIDEST, 1);  // added last: a step is small beside a weight
    const float *groups[(R + 4) / 5];
    for (int g = 0; g < (R + 4) / 5; g++) groups[g] = left.at + 5 * g * left.down;
    const long down = left.down;
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
    if (!early) EVERY sum[r][v] *= rate;
    if (!early && begin) EVERY sum[r][v] += load_part(begin + v * WIDEST, n(v));
    if (keep) EVERY sum[r][v] += load_part(into + r * apart + v * WIDEST, n(v));
    EVERY store_part(into + r * apart + v * WIDEST, sum[r][v], n(v));
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

// Does something for n things in groups of about `most` that are about equally large, and begin at multiples of `grain`.
template <class Work>
static void in_groups(long n, long most, long grain, Work work) {
    long groups = (n + most - 1) / most, grains = (n + grain - 1) / grain;
    for (long g = 0; g < groups; g++) {
        long first = grains * g / groups * grain, last = grains * (g + 1) / groups * grain;
        if (first < last) work(first, (last < n ? last : n) - first);
    }
}

// Does something for all rows in groups of up to ROWS.
template <class Work>
static void over_tiles(long rows, Work work) {
    in_groups(rows, ROWS, 1, work);
}

// Does something for two of n things at a time: work(how many, which is the first).
template <class Work>
static void pairs(long n, Work work) {
    long first = 0;
    for (; first + 2 <= n; first += 2) work(std::integral_constant<int, 2>(), first);
    if (first < n) work(std::integral_constant<int, 1>(), first);
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
