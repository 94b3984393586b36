// Batch norm of channels-last images with the ReLU or ReLU6 that may follow it. An image is read twice while it is in the cache.
#pragma once
#include <type_traits>
#include "group_norm.h"

// V vectors of channels from c on, and numbers of theirs.
template <int V>
struct Part {
    Some some[V];

    Part(long channels, long c) {
        UNROLLED for (int v = 0; v < V; v++) some[v] = Some(channels - c - v * WIDEST);
    }

    void load(const float *from, wide (&to)[V]) const {
        UNROLLED for (int v = 0; v < V; v++) to[v] = some[v].load(from + v * WIDEST);
    }

    void add(float *to, const wide (&value)[V]) const {
        UNROLLED for (int v = 0; v < V; v++) some[v].store(to + v * WIDEST, some[v].load(to + v * WIDEST) + value[v]);
    }
};

const long CLOSE = 4096;  // numbers that stay in the first cache

// Calls work(V, c, first, last) for some pixels at a time, and for V vectors of their channels from c on.
template <class Work>
static void in_parts(long pixels, long channels, Work work) {
    const long together = CLOSE / channels + 1;
    for (long first = 0; first < pixels; first += together) {
        const long last = first + together < pixels ? first + together : pixels;
        for (long c = 0; c < channels;) {
            const long vectors = filled(channels - c) / WIDEST;
            if (vectors >= 4) work(std::integral_constant<int, 4>(), c, first, last), c += 4 * WIDEST;
            else if (vectors >= 2) work(std::integral_constant<int, 2>(), c, first, last), c += 2 * WIDEST;
            else work(std::integral_constant<int, 1>(), c, first, last), c += WIDEST;
        }
    }
}

// Means and sums of squares about them, image by image, put together as they come. An image is read once: sums are those of how
// far it is from the mean of the images before, and from its own if it is the first.
//
// Reference: Chan, Golub, LeVeque, Updating Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979.
static void batch_moments(long n, long pixels, long channels, const float *x, float *mean, float *squares) {
    float sums[MOST_CHANNELS], powers[MOST_CHANNELS];
    over_channels(channels, [&](long c, Some some) {
        some.store(mean + c, over_pixels(pixels, [&](long p) { return some.load(x + p * channels + c); }) / (float)pixels);
        some.store(squares + c, wide{});
    });
    for (long i = 0; i < n; i++, x += pixels * channels) {
        std::memset(sums, 0, 4 * channels);
        std::memset(powers, 0, 4 * channels);
        in_parts(pixels, channels, [&](auto V, long c, long first, long last) {
            const Part<V> part(channels, c);
            wide m[V], sum[V] = {}, power[V] = {};
            part.load(mean + c, m);
            for (long at = first * channels + c; at < last * channels; at += channels)
                UNROLLED for (int v = 0; v < V; v++) {
                    const wide away = part.some[v].load(x + at + v * WIDEST) - m[v];
                    sum[v] += away, power[v] += away * away;
                }
            part.add(sums + c, sum), part.add(powers + c, power);
        });
        for (long c = 0; c < channels; c++) {
            const float apart = sums[c] / pixels, spread = powers[c] - sums[c] * apart;
            mean[c] += apart / (i + 1);
            squares[c] += (spread > 0 ? spread : 0) + apart * apart * ((float)pixels * i / (i + 1));
        }
    }
}

// A norm as scale * x + shift: the same numbers in both passes.
__attribute__((noinline)) static void as_line(long channels, const float *mean, const float *rstd, const float *gamma,
                                              const float *beta, float *scale, float *shift) {
    for (long c = 0; c < channels; c++) {
        scale[c] = gamma ? rstd[c] * gamma[c] : rstd[c];
        shift[c] = (beta ? beta[c] : 0) - mean[c] * scale[c];
    }
}

// y = scale * x + shift, behind a ReLU or not.
static void spread_line(long values, long channels, bool relu, float most, const float *x, const float *scale, const float *shift,
                        float *y) {
    auto apply = [&](long at, wide a, wide b, Some some) {
        const wide found = some.load(x + at) * a + b;
        some.store(y + at, relu ? within(found, most) : found);
    };
    if (channels <= 4 * WIDEST)
        in_parts(values, channels, [&](auto V, long c, long first, long last) {
            const Part<V> part(channels, c);
            wide a[V], b[V];
            part.load(scale + c, a), part.load(shift + c, b);
            for (long at = first * channels + c; at < last * channels; at += channels)
                UNROLLED for (int v = 0; v < V; v++) apply(at + v * WIDEST, a[v], b[v], part.some[v]);
        });
    else  // as pixels lie in memory
        for (long at = 0; at < values * channels; at += channels)
            over_channels(channels, [&](long c, Some some) { apply(at + c, some.load(scale + c), some.load(shift + c), some); });
}

// Running statistics may be null; they move by `momentum` towards the batch's, with its unbiased variance.
static void batch_norm_forward(long n, long pixels, long channels, bool relu, float most, float eps, float momentum, const float *x,
                               const float *gamma, const float *beta, float *level, float *spread, float *y, float *mean,
                               float *rstd) {
    const long values = n * pixels;
    float squares[MOST_CHANNELS], scale[MOST_CHANNELS], shift[MOST_CHANNELS];
    batch_moments(n, pixels, channels, x, mean, squares);
    for (long c = 0; c < channels; c++) {
        rstd[c] = 1 / std::sqrt(squares[c] / values + eps);
        if (level) level[c] += momentum * (mean[c] - level[c]);
        if (spread) spread[c] += momentum * (squares[c] / (values - 1) - spread[c]);
    }
    as_line(channels, mean, rstd, gamma, beta, scale, shift);
    spread_line(values, channels, relu, most, x, scale, shift, y);
}

// By running statistics, which stay as they are.
static void batch_norm_running(long values, long channels, bool relu, float most, float eps, const float *x, const float *gamma,
                               const float *beta, const float *level, const float *spread, float *y) {
    float rstd[MOST_CHANNELS], scale[MOST_CHANNELS], shift[MOST_CHANNELS];
    for (long c = 0; c < channels; c++) rstd[c] = 1 / std::sqrt(spread[c] + eps);
    as_line(channels, level, rstd, gamma, beta, scale, shift);
    spread_line(values, channels, relu, most, x, scale, shift, y);
}

enum { NO_RELU, RELU_FOUND, RELU_ANEW };  // its output is there, or is found from what the norm saw

// What is sent back through a ReLU behind a norm that finds scale * seen + shift.
template <int RELU>
static inline wide let_back(const float *sent, const float *out, wide seen, wide scale, wide shift, float most, Some some) {
    const wide back = some.load(sent);
    if (RELU == NO_RELU) return back;
    return let_through(back, RELU == RELU_FOUND ? some.load(out) : seen * scale + shift, most);
}

// With h = (x - mean) rstd and s what is sent back: found = gamma rstd (s - mean of s - h times the mean of s h).
// With a ReLU behind the norm, that lets through `most` at most, `out` is what it found, if it is there.
template <int RELU>
static void batch_norm_back(long n, long pixels, long channels, const float *sent, const float *x, const float *mean,
                            const float *rstd, const float *gamma, const float *beta, const float *out, float most, float *found,
                            float *by_gamma, float *by_beta) {
    float products[MOST_CHANNELS] = {}, sums[MOST_CHANNELS] = {}, scale[MOST_CHANNELS], shift[MOST_CHANNELS];
    as_line(channels, mean, rstd, gamma, beta, scale, shift);
    in_parts(n * pixels, channels, [&](auto V, long c, long first, long last) {  // some by themselves, which rounds less
        const Part<V> part(channels, c);
        wide m[V], a[V], b[V], sum[V] = {}, product[V] = {};
        part.load(mean + c, m), part.load(scale + c, a), part.load(shift + c, b);
        for (long at = first * channels + c; at < last * channels; at += channels)
            UNROLLED for (int v = 0; v < V; v++) {
                const long d = at + v * WIDEST;
                const wide seen = part.some[v].load(x + d);
                const wide back = let_back<RELU>(sent + d, out + d, seen, a[v], b[v], most, part.some[v]);
                sum[v] += back, product[v] += back * (seen - m[v]);
            }
        part.add(sums + c, sum), part.add(products + c, product);
    });
    const float values = n * pixels;
    float slope[MOST_CHANNELS], level[MOST_CHANNELS];
    for (long c = 0; c < channels; c++) {
        if (by_gamma) by_gamma[c] = products[c] * rstd[c];
        if (by_beta) by_beta[c] = sums[c];
        slope[c] = products[c] * -scale[c] * rstd[c] * rstd[c] / values;
        level[c] = sums[c] * -scale[c] / values;
    }
    if (!found) return;
    in_parts(n * pixels, channels, [&](auto V, long c, long first, long last) {
        const Part<V> part(channels, c);
        wide m[V], a[V], b[V], s[V], l[V];
        part.load(mean + c, m), part.load(scale + c, a), part.load(shift + c, b), part.load(slope + c, s), part.load(level + c, l);
        for (long at = first * channels + c; at < last * channels; at += channels)
            UNROLLED for (int v = 0; v < V; v++) {
                const long d = at + v * WIDEST;
                const wide seen = part.some[v].load(x + d);
                const wide back = let_back<RELU>(sent + d, out + d, seen, a[v], b[v], most, part.some[v]);
                part.some[v].store(found + d, a[v] * back + (l[v] + s[v] * (seen - m[v])));
            }
    });
}
