// Group norm of channels-last images, one after another, with the ReLU or ReLU6 that may follow it.
#pragma once
#include "common.h"

// For each of a vector of channels the sum over pixels of what `term` gives for a pixel, in four parts that do not wait for each other.
template <class Term>
static wide over_pixels(long n, Term term) {
    wide part[4] = {};
    long p = 0;
    for (; p + 4 <= n; p += 4)
        UNROLLED for (int k = 0; k < 4; k++) part[k] += term(p + k);
    for (; p < n; p++) part[0] += term(p);
    return (part[0] + part[1]) + (part[2] + part[3]);
}

// A ReLU that lets through `most` at most, and what it sends back.
static inline wide within(wide x, float most) {
    wide zero = {}, top = zero + most;
    x = x > zero ? x : zero;
    return x < top ? x : top;
}

static inline wide let_through(wide sent, wide out, float most) {
    wide zero = {};
    sent = out > zero ? sent : zero;
    return out < zero + most ? sent : zero;
}

// Sums over the channels of each group, for every channel of it.
static void add_up_groups(float *values, long channels, long groups) {
    long each = channels / groups;
    for (long g = 0; g < groups; g++) {
        float total = 0;
        for (long c = 0; c < each; c++) total += values[g * each + c];
        for (long c = 0; c < each; c++) values[g * each + c] = total;
    }
}

static void group_norm_forward(long n, long pixels, long channels, long groups, bool relu, float most, float eps, const float *x,
                               const float *gamma, const float *beta, float *y, float *mean, float *rstd) {
    long each = channels / groups;
    float m[MOST_CHANNELS], r[MOST_CHANNELS], scale[MOST_CHANNELS], shift[MOST_CHANNELS];
    for (long i = 0; i < n; i++, x += pixels * channels, y += pixels * channels) {
        over_channels(channels, [&](long c, Some some) {
            some.store(m + c, over_pixels(pixels, [&](long p) { return some.load(x + p * channels + c); }));
        });
        add_up_groups(m, channels, groups);
        for (long c = 0; c < channels; c++) m[c] /= pixels * each;
        over_channels(channels, [&](long c, Some some) {
            wide middle = some.load(m + c);
            some.store(r + c, over_pixels(pixels, [&](long p) {
                           wide away = some.load(x + p * channels + c) - middle;
                           return away * away;
                       }));
        });
        add_up_groups(r, channels, groups);
        for (long c = 0; c < channels; c++) {
            r[c] = 1 / std::sqrt(r[c] / (pixels * each) + eps);
            scale[c] = gamma ? r[c] * gamma[c] : r[c];
            shift[c] = (beta ? beta[c] : 0) - m[c] * scale[c];
        }
        for (long g = 0; g < groups; g++) mean[i * groups + g] = m[g * each], rstd[i * groups + g] = r[g * each];
        over_channels(channels, [&](long c, Some some) {
            wide a = some.load(scale + c), b = some.load(shift + c);
            for (long p = 0; p < pixels; p++) {
                wide found = some.load(x + p * channels + c) * a + b;
                some.store(y + p * channels + c, relu ? within(found, most) : found);
            }
        });
    }
}

// `out` is what followed the norm through a ReLU that lets through `most` at most, or null.
static void group_norm_backward(long n, long pixels, long channels, long groups, const float *sent, const float *x,
                                const float *mean, const float *rstd, const float *gamma, const float *out, float most,
                                float *found, float *by_gamma, float *by_beta) {
    long each = channels / groups;
    float m[MOST_CHANNELS], a[MOST_CHANNELS], b[MOST_CHANNELS], scale[MOST_CHANNELS];
    if (by_gamma) std::memset(by_gamma, 0, 4 * channels);
    if (by_beta) std::memset(by_beta, 0, 4 * channels);
    for (long i = 0; i < n; i++) {
        const long at = i * pixels * channels;
        auto passed = [&](long p, long c, Some some) {
            wide back = some.load(sent + at + p * channels + c);
            return out ? let_through(back, some.load(out + at + p * channels + c), most) : back;
        };
        for (long c = 0; c < channels; c++) m[c] = mean[i * groups + c / each];
        over_channels(channels, [&](long c, Some some) {
            wide middle = some.load(m + c), total = {};
            wide product = over_pixels(pixels, [&](long p) {
                wide back = passed(p, c, some);
                total += back;
                return back * (some.load(x + at + p * channels + c) - middle);
            });
            some.store(a + c, product);
            some.store(b + c, total);
        });
        for (long c = 0; c < channels; c++) {
            float r = rstd[i * groups + c / each], g = gamma ? gamma[c] : 1;
            if (by_gamma) by_gamma[c] += a[c] * r;
            if (by_beta) by_beta[c] += b[c];
            scale[c] = g * r, a[c] *= g, b[c] *= g;
        }
        add_up_groups(a, channels, groups);
        add_up_groups(b, channels, groups);
        for (long c = 0; c < channels; c++) {
            float r = rstd[i * groups + c / each];
            a[c] *= -r * r * r / (pixels * each);
            b[c] *= -r / (pixels * each);
        }
        over_channels(channels, [&](long c, Some some) {
            wide middle = some.load(m + c), s = some.load(scale + c), slope = some.load(a + c), level = some.load(b + c);
            for (long p = 0; p < pixels; p++)
                some.store(found + at + p * channels + c,
                           s * passed(p, c, some) + slope * (some.load(x + at + p * channels + c) - middle) + level);
        });
    }
}
