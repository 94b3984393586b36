// Squares of numbers, turned: rows become columns.
#pragma once
#include "common.h"

// A square of L x L numbers, turned: four times, each row of the upper half is shuffled with one of the lower.
template <int L>
static void turned_square(const float *from, long step, float *to, long apart) {
#ifdef __AVX512F__
    if (L == 16) {
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
        return;
    }
#endif
    for (int r = 0; r < L; r++)
        for (int c = 0; c < L; c++) to[c * apart + r] = from[r * step + c];
}

static inline void turned(const float *from, long step, float *to, long apart) { turned_square<WIDEST>(from, step, to, apart); }
