// Rows of numbers: layer norms, GELU, SiLU, sums over an axis, embeddings.
#pragma once
#include "common.h"

typedef int whole __attribute__((vector_size(4 * WIDEST)));

// All vectors of n numbers; the last may have some of them alone.
template <class Full, class Some>
static inline void over(long n, Full full, Some some) {
    long k = 0;
    for (; k + WIDEST <= n; k += WIDEST) full(k);
    if (k < n) some(k, n - k);
}

// e^x = 2^n e^r with |r| <= log(2) / 2, to about one unit in the last place; what is not a number stays so.
static inline wide exponential(wide x) {
    const float magic = 12582912;  // adding it rounds to an integer, which the last bits hold
    wide low = wide{} - 87.3f, high = wide{} + 88.7f;
    x = x < low ? low : x;
    x = x > high ? high : x;
    wide shifted = x * 1.44269504f + magic, n = shifted - magic;
    wide r = x - n * 0.693359375f + n * 2.12194440e-4f;
    wide p = wide{} + 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return (wide)((whole)p + ((whole)shifted << 23));
}

// x Phi(x), and its slope Phi(x) + x phi(x): both have e^(-x^2 / 2).
// Reference: Abramowitz, Stegun, Handbook of Mathematical Functions, 7.1.26 (within 1.5e-7).
static inline wide gelu_of(wide x, wide &slope) {
    wide zero = {}, z = (x < zero ? -x : x) * 0.707106781f, bell = exponential(-z * z);
    wide t = 1.0f / (1.0f + 0.3275911f * z);
    wide tail = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
    tail = 0.5f * tail * bell;  // Phi(-|x|)
    wide below = x < zero ? tail : 1.0f - tail;
    slope = below + x * bell * 0.398942280f;
    return x * below;
}

// x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3), and its slope: the first is x s(2 u).
static inline wide gelu_tanh_of(wide x, wide &slope) {
    const float a = 0.797884561f, b = 0.044715f;
    wide square = x * x, s = 1.0f / (1.0f + exponential(-2.0f * a * x * (1.0f + b * square))), y = x * s;
    slope = s + 2.0f * a * y * (1.0f - s) * (1.0f + 3.0f * b * square);
    return y;
}

// 1 / (1 + e^-x), and tanh, exact to about 1e-7 of 1.
static inline wide sigmoid(wide x) { return 1.0f / (1.0f + exponential(-x)); }
static inline wide hyperbolic(wide x) { return 2.0f * sigmoid(2.0f * x) - 1.0f; }

// The same, exact to about 1e-6 of itself: close to zero, where that difference has few digits, by its series.
static inline wide hyperbolic_near(wide x) {
    const wide square = x * x;
    const wide near = x * (1.0f + square * (-1 / 3.0f + square * (2 / 15.0f + square * (-17 / 315.0f))));
    return square < wide{} + 0.03f ? near : hyperbolic(x);
}

// x s(x), and its slope s(x) (1 + x (1 - s(x))), with s(x) = 1 / (1 + e^-x).
static inline wide silu_of(wide x, wide &slope) {
    wide s = 1.0f / (1.0f + exponential(-x)), y = x * s;
    slope = s + y * (1.0f - s);
    return y;
}

// y = f(x), with an f that also finds its slope, which takes the place of x if asked for.
template <class Function>
static void bent_rows(long n, float *x, float *y, bool slopes, Function f) {
    wide slope;
    over(
        n,
        [&](long k) {
            store<WIDEST>(y + k, f(load<WIDEST>(x + k), slope));
            if (slopes) store<WIDEST>(x + k, slope);
        },
        [&](long k, long some) {
            store_some<WIDEST>(y + k, f(load_some<WIDEST>(x + k, some), slope), some);
            if (slopes) store_some<WIDEST>(x + k, slope, some);
        });
}

static void layer_norm_rows(long n, long width, float eps, const float *x, const float *gamma, const float *beta, float *y,
                            float *mean, float *rstd) {
    for (long i = 0; i < n; i++, x += width, y += width) {
        wide sum = {}, square = {};
        over(width, [&](long k) { sum += load<WIDEST>(x + k); }, [&](long k, long some) { sum += load_some<WIDEST>(x + k, some); });
        float m = total(sum) / width;
        over(
            width,
            [&](long k) {
                wide away = load<WIDEST>(x + k) - m;
                square += away * away;
            },
            [&](long k, long some) {
                for (long e = k; e < k + some; e++) square[0] += (x[e] - m) * (x[e] - m);
            });
        float r = 1 / std::sqrt(total(square) / width + eps);
        mean[i] = m, rstd[i] = r;
        for (long k = 0; k < width; k++) y[k] = (x[k] - m) * r * (gamma ? gamma[k] : 1) + (beta ? beta[k] : 0);
    }
}

// With s what is sent back times gamma and h = (x - mean) rstd: found = rstd (s - mean of s - h times the mean of s h).
static void layer_norm_back(long n, long width, const float *sent, const float *x, const float *mean, const float *rstd,
                            const float *gamma, float *found, float *by_gamma, float *by_beta) {
    if (by_gamma) std::memset(by_gamma, 0, 4 * width);
    if (by_beta) std::memset(by_beta, 0, 4 * width);
    for (long i = 0; i < n; i++, x += width, sent += width) {
        float m = mean[i], r = rstd[i];
        wide sums = {}, products = {};
        auto look = [&](wide back, wide hat, wide scale) {
            sums += back * scale;
            products += back * scale * hat;
        };
        over(
            width,
            [&](long k) {
                wide hat = (load<WIDEST>(x + k) - m) * r, back = load<WIDEST>(sent + k);
                look(back, hat, gamma ? load<WIDEST>(gamma + k) : wide{} + 1.0f);
                if (by_gamma) store<WIDEST>(by_gamma + k, load<WIDEST>(by_gamma + k) + back * hat);
                if (by_beta) store<WIDEST>(by_beta + k, load<WIDEST>(by_beta + k) + back);
            },
            [&](long k, long some) {  // nothing is sent back beyond the end
                wide hat = (load_some<WIDEST>(x + k, some) - m) * r, back = load_some<WIDEST>(sent + k, some);
                look(back, hat, gamma ? load_some<WIDEST>(gamma + k, some) : wide{} + 1.0f);
                for (long e = 0; e < some; e++) {
                    if (by_gamma) by_gamma[k + e] += back[e] * hat[e];
                    if (by_beta) by_beta[k + e] += back[e];
                }
            });
        if (!found) continue;
        float level = total(sums) / width, tilt = total(products) / width;
        for (long k = 0; k < width; k++)
            found[i * width + k] = r * (sent[k] * (gamma ? gamma[k] : 1) - level - (x[k] - m) * r * tilt);
    }
}

// found[o, i] = rate times the sum over k of x[o, k, i].
static void sums_over(long outer, long n, long inner, float rate, const float *x, float *found) {
    for (long o = 0; o < outer; o++, x += n * inner, found += inner) {
        std::memset(found, 0, 4 * inner);
        long k = 0;
        for (; k + 4 <= n; k += 4) {
            const float *a = x + k * inner, *b = a + inner, *c = b + inner, *d = c + inner;
            for (long i = 0; i < inner; i++) found[i] += (a[i] + b[i]) + (c[i] + d[i]);
        }
        for (; k < n; k++)
            for (long i = 0; i < inner; i++) found[i] += x[k * inner + i];
        if (rate != 1)
            for (long i = 0; i < inner; i++) found[i] *= rate;
    }
}
