// Group norm of channels-last images, one after another, with the ReLU or ReLU6 that may follow it.
#pragma once
#include "common.h"

// For each of L channels the sum over pixels of what `term` gives for a pixel, in four parts that do not wait for each other.
template <int L, class Term>
static typename Vec<L>::type over_pixels(long n, Term term) {
    typename Vec<L>::type part[4] = {};
    long p = 0;
    for (; p + 4 <= n; p += 4)
        for (int k = 0; k < 4; k++) part[k] += term(p + k);
    for (; p < n; p++) part[0] += term(p);
    return (part[0] + part[1]) + (part[2] + part[3]);
}

// A ReLU that lets through `most` at most, and what it sends back.
template <int L>
static inline typename Vec<L>::type within(typename Vec<L>::type x, float most) {
    typename Vec<L>::type zero = {}, top = zero + most;
    x = x > zero ? x : zero;
    return x < top ? x : top;
}

template <int L>
static inline typename Vec<L>::type let_through(typename Vec<L>::type sent, typename Vec<L>::type out, float most) {
    typename Vec<L>::type zero = {};
    sent = out > zero ? sent : zero;
    return out < zero + most ? sent : zero;
}

// Sums over the channels of each group, for every channel of it.
static void over_groups(float *values, long channels, long groups) {
    long each = channels / groups;
    for (long g = 0; g < groups; g++) {
        float total = 0;
        for (long c = 0; c < each; c++) total += values[g * each + c];
        for (long c = 0; c < each; c++) values[g * each + c] = total;
    }
}

template <int L>
static void group_norm_forward(long n, long pixels, long channels, long groups, bool relu, float most, float eps, const float *x,
                               const float *gamma, const float *beta, float *y, float *mean, float *rstd) {
    typedef typename Vec<L>::type vec;
    long each = channels / groups;
    float m[MOST_CHANNELS], r[MOST_CHANNELS], scale[MOST_CHANNELS], shift[MOST_CHANNELS];
    for (long i = 0; i < n; i++, x += pixels * channels, y += pixels * channels) {
        for (long c = 0; c < channels; c += L)
            store<L>(m + c, over_pixels<L>(pixels, [&](long p) { return load<L>(x + p * channels + c); }));
        over_groups(m, channels, groups);
        for (long c = 0; c < channels; c++) m[c] /= pixels * each;
        for (long c = 0; c < channels; c += L) {
            vec middle = load<L>(m + c);
            store<L>(r + c, over_pixels<L>(pixels, [&](long p) {
                         vec away = load<L>(x + p * channels + c) - middle;
                         return away * away;
                     }));
        }
        over_groups(r, channels, groups);
        for (long c = 0; c < channels; c++) {
            r[c] = 1 / std::sqrt(r[c] / (pixels * each) + eps);
            scale[c] = gamma ? r[c] * gamma[c] : r[c];
            shift[c] = (beta ? beta[c] : 0) - m[c] * scale[c];
        }
        for (long g = 0; g < groups; g++) mean[i * groups + g] = m[g * each], rstd[i * groups + g] = r[g * each];
        for (long c = 0; c < channels; c += L) {
            vec a = load<L>(scale + c), b = load<L>(shift + c);
            for (long p = 0; p < pixels; p++) {
                vec found = load<L>(x + p * channels + c) * a + b;
                store<L>(y + p * channels + c, relu ? within<L>(found, most) : found);
            }
        }
    }
}

// `out` is what followed the norm through a ReLU that lets through `most` at most, or null.
template <int L>
static void group_norm_backward(long n, long pixels, long channels, long groups, const float *sent, const float *x,
                                const float *mean, const float *rstd, const float *gamma, const float *out, float most,
                                float *found, float *by_gamma, float *by_beta) {
    typedef typename Vec<L>::type vec;
    long each = channels / groups;
    float m[MOST_CHANNELS], a[MOST_CHANNELS], b[MOST_CHANNELS], scale[MOST_CHANNELS];
    if (by_gamma) std::memset(by_gamma, 0, 4 * channels);
    if (by_beta) std::memset(by_beta, 0, 4 * channels);
    for (long i = 0; i < n; i++) {
        const long at = i * pixels * channels;
        auto passed = [&](long p, long c) {
            vec back = load<L>(sent + at + p * channels + c);
            return out ? let_through<L>(back, load<L>(out + at + p * channels + c), most) : back;
        };
        for (long c = 0; c < channels; c++) m[c] = mean[i * groups + c / each];
        for (long c = 0; c < channels; c += L) {
            vec middle = load<L>(m + c), total = {};
            vec product = over_pixels<L>(pixels, [&](long p) {
                vec back = passed(p, c);
                total += back;
                return back * (load<L>(x + at + p * channels + c) - middle);
            });
            store<L>(a + c, product);
            store<L>(b + c, total);
        }
        for (long c = 0; c < channels; c++) {
            float r = rstd[i * groups + c / each], g = gamma ? gamma[c] : 1;
            if (by_gamma) by_gamma[c] += a[c] * r;
            if (by_beta) by_beta[c] += b[c];
            scale[c] = g * r, a[c] *= g, b[c] *= g;
        }
        over_groups(a, channels, groups);
        over_groups(b, channels, groups);
        for (long c = 0; c < channels; c++) {
            float r = rstd[i * groups + c / each];
            a[c] *= -r * r * r / (pixels * each);
            b[c] *= -r / (pixels * each);
        }
        for (long c = 0; c < channels; c += L) {
            vec middle = load<L>(m + c), s = load<L>(scale + c), slope = load<L>(a + c), level = load<L>(b + c);
            for (long p = 0; p < pixels; p++)
                store<L>(found + at + p * channels + c,
                         s * passed(p, c) + slope * (load<L>(x + at + p * channels + c) - middle) + level);
        }
    }
}
