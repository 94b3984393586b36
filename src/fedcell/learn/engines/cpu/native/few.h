// Products with few rows, or of few terms, that read the rows of the other matrix as they lie: nothing is copied.
#pragma once
#include "tiles.h"

#if defined(__AVX512F__)
const int FEW = 12;  // rows or terms that fill the registers, two rows of the other matrix at a time
#else
const int FEW = 5;
#endif
const long NEAR = 8192;  // numbers of the smaller matrix that stay in the first cache

// Calls something with the constant N that is n, up to FEW.
#define FOR_FEW(n, ...) \
    switch (n) { \
        FEW_CASE(1, __VA_ARGS__) FEW_CASE(2, __VA_ARGS__) FEW_CASE(3, __VA_ARGS__) FEW_CASE(4, __VA_ARGS__) \
        FEW_CASE(5, __VA_ARGS__) FEW_CASE(6, __VA_ARGS__) FEW_CASE(7, __VA_ARGS__) FEW_CASE(8, __VA_ARGS__) \
        FEW_CASE(9, __VA_ARGS__) FEW_CASE(10, __VA_ARGS__) FEW_CASE(11, __VA_ARGS__) FEW_CASE(12, __VA_ARGS__) \
    }
#define FEW_CASE(n, ...) \
    case n: { const int N = n <= FEW ? n : 1; __VA_ARGS__; } break;

#ifdef __AVX512F__
// The sums of the numbers of 16 vectors: four times, halves of two vectors are added.
static inline __m512 totals(const __m512 *v) {
    __m512 two[8], four[4];
    for (int k = 0; k < 8; k++)
        two[k] = _mm512_add_ps(_mm512_unpacklo_ps(v[2 * k], v[2 * k + 1]), _mm512_unpackhi_ps(v[2 * k], v[2 * k + 1]));
    for (int k = 0; k < 4; k++) {
        __m512d a = _mm512_castps_pd(two[2 * k]), b = _mm512_castps_pd(two[2 * k + 1]);
        four[k] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    auto joined = [](__m512 a, __m512 b) {
        return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    };
    return joined(joined(four[0], four[1]), joined(four[2], four[3]));
}
#endif

// found[k] = the sum of the numbers of the k-th of N vectors; found has room for full vectors
template <int N>
static inline void totals_of(const wide *v, float *found) {
#ifdef __AVX512F__
    for (int first = 0; first < N; first += 16) {
        __m512 some[16];
#pragma GCC unroll 16
        for (int k = 0; k < 16; k++) some[k] = first + k < N ? (__m512)v[first + k < N ? first + k : 0] : _mm512_setzero_ps();
        _mm512_storeu_ps(found + first, totals(some));
    }
#else
    for (int k = 0; k < N; k++) found[k] = total(v[k]);
#endif
}

// into[r, c] = keep * into[r, c] + begin[c] + rate * sum over k of left[r, k] right[c, k], for R rows and C columns.
template <int R, int C>
ALONE static void dots(const float *left, long down, const float *right, long across, long depth, float *into, long apart,
                       bool keep, const float *begin, float rate) {
    wide sum[R * C];
#pragma GCC unroll 32
    for (int s = 0; s < R * C; s++) sum[s] = wide{};
    auto more = [&](auto part) {
        wide column[C];
        for (int c = 0; c < C; c++) column[c] = part(right + c * across);
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) {
            wide row = part(left + r * down);
#pragma GCC unroll 2
            for (int c = 0; c < C; c++) sum[r * C + c] += row * column[c];
        }
    };
    long k = 0;
    for (; k + WIDEST <= depth; k += WIDEST) more([k](const float *from) { return load<WIDEST>(from + k); });
    if (k < depth) more([k, depth](const float *from) { return load_some<WIDEST>(from + k, depth - k); });
    float found[(R * C + 15) / 16 * 16];
    totals_of<R * C>(sum, found);
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) {
            float *to = into + r * apart + c;
            *to = (keep ? *to : 0) + (begin ? begin[c] : 0) + rate * found[r * C + c];
        }
}

// A product of few rows and of columns whose numbers lie one after another, as `product` has it.
template <class Between>
static void product_of_few_rows(Matrix left, Matrix right, long rows, long depth, long columns, float *into, long apart,
                                bool keep, const float *begin, float rate, Between between) {
    in_groups(rows, FEW, 1, [&](long r, long high) {
        in_groups(depth, NEAR / high, WIDEST, [&](long k, long deep) {
            const float *rows_of = left.from(r, k).at, *start = k ? 0 : begin;
            FOR_FEW(high, pairs(columns, [&](auto n, long c) {
                between(n * high * deep);
                dots<N, n>(rows_of, left.down, right.from(k, c).at, right.right, deep, into + r * apart + c, apart, keep || k,
                           start ? start + c : 0, rate);
            }))
        });
    });
}

// A vector that a compiler does not read again for its second use.
static inline wide in_register(wide v) {
#ifdef __AVX512F__
    __asm__("" : "+v"(v));
#endif
    return v;
}

// into[r, :] = keep * into[r, :] + rate * sum over k of left[r, k] right[k, :], for D terms and R rows.
template <int D, int R>
ALONE static void outers(Matrix left, const float *right, long step, long columns, float *into, long apart, bool keep,
                         float rate) {
    wide factor[D][R];
#pragma GCC unroll 16
    for (int k = 0; k < D; k++)
#pragma GCC unroll 2
        for (int r = 0; r < R; r++) factor[k][r] = wide{} + rate * left.from(r, k).at[0];
    auto some = [&](long c, auto get, auto put) {
        wide sum[R];
        for (int r = 0; r < R; r++) sum[r] = wide{};
#pragma GCC unroll 16
        for (int k = 0; k < D; k++) {
            wide row = in_register(get(right + k * step + c));
#pragma GCC unroll 2
            for (int r = 0; r < R; r++) sum[r] += factor[k][r] * row;
        }
        for (int r = 0; r < R; r++) put(into + r * apart + c, keep ? sum[r] + get(into + r * apart + c) : sum[r]);
    };
    long c = 0;
    for (; c + WIDEST <= columns; c += WIDEST) some(c, load<WIDEST>, store<WIDEST>);
    const long n = columns - c;
    if (n)
        some(c, [n](const float *from) { return load_some<WIDEST>(from, n); },
             [n](float *to, wide value) { store_some<WIDEST>(to, value, n); });
}

// A product of up to FEW terms whose right matrix and result have rows of numbers that lie one after another.
template <class Between>
static void product_of_few_terms(Matrix left, Matrix right, long rows, long depth, long columns, float *into, long apart,
                                 bool keep, float rate, Between between) {
    in_groups(columns, NEAR / depth, WIDEST, [&](long c, long broad) {
        FOR_FEW(depth, pairs(rows, [&](auto n, long r) {
            between(n * depth * broad);
            outers<N, n>(left.from(r, 0), right.at + c, right.down, broad, into + r * apart + c, apart, keep, rate);
        }))
    });
}
