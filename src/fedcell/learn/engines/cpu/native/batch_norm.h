// Batch norm of channels-last images with the ReLU or ReLU6 that may follow it. An image is read twice while it is in the cache.
#pragma once
#include "group_norm.h"

// Means and sums of squares about them, image by image, put together as they come.
//
// Reference: Chan, Golub, LeVeque, Updating Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979.
template <int L>
static void batch_moments(long n, long pixels, long channels, const float *x, float *mean, float *squares) {
    typedef typename Vec<L>::type vec;
    for (long i = 0; i < n; i++, x += pixels * channels)
        for (long c = 0; c < channels; c += L) {
            vec middle = over_pixels<L>(pixels, [&](long p) { return load<L>(x + p * channels + c); }) / (float)pixels;
            vec spread = over_pixels<L>(pixels, [&](long p) {
                vec away = load<L>(x + p * channels + c) - middle;
                return away * away;
            });
            vec before = i ? load<L>(mean + c) : middle, apart = middle - before;
            store<L>(mean + c, before + apart / (float)(i + 1));
            store<L>(squares + c, (i ? load<L>(squares + c) : vec{}) + spread + apart * apart * ((float)pixels * i / (i + 1)));
        }
}

// Running statistics may be null; they move by `momentum` towards the batch's, with its unbiased variance.
template <int L>
static void batch_norm_forward(long n, long pixels, long channels, bool relu, float most, float eps, float momentum, const float *x,
                               const float *gamma, const float *beta, float *level, float *spread, float *y, float *mean,
                               float *rstd) {
    typedef typename Vec<L>::type vec;
    const long values = n * pixels;
    float squares[MOST_CHANNELS], scale[MOST_CHANNELS], shift[MOST_CHANNELS];
    batch_moments<L>(n, pixels, channels, x, mean, squares);
    for (long c = 0; c < channels; c++) {
        rstd[c] = 1 / std::sqrt(squares[c] / values + eps);
        scale[c] = gamma ? rstd[c] * gamma[c] : rstd[c];
        shift[c] = (beta ? beta[c] : 0) - mean[c] * scale[c];
        if (level) level[c] += momentum * (mean[c] - level[c]);
        if (spread) spread[c] += momentum * (squares[c] / (values - 1) - spread[c]);
    }
    for (long p = 0; p < values; p++)
        for (long c = 0; c < channels; c += L) {
            vec found = load<L>(x + p * channels + c) * load<L>(scale + c) + load<L>(shift + c);
            store<L>(y + p * channels + c, relu ? within<L>(found, most) : found);
        }
}

// With h = (x - mean) rstd and s what is sent back: found = gamma rstd (s - mean of s - h times the mean of s h).
// `out` is what followed the norm through a ReLU that lets through `most` at most, or null.
template <int L>
static void batch_norm_backward(long n, long pixels, long channels, const float *sent, const float *x, const float *mean,
                                const float *rstd, const float *gamma, const float *out, float most, float *found,
                                float *by_gamma, float *by_beta) {
    typedef typename Vec<L>::type vec;
    float products[MOST_CHANNELS] = {}, sums[MOST_CHANNELS] = {}, scale[MOST_CHANNELS];
    float product[MOST_CHANNELS], sum[MOST_CHANNELS];
    auto passed = [&](long at) {
        vec back = load<L>(sent + at);
        return out ? let_through<L>(back, load<L>(out + at), most) : back;
    };
    for (long i = 0; i < n; i++) {  // first by themselves, which rounds less; pixel by pixel, as they lie in memory
        std::memset(product, 0, 4 * channels);
        std::memset(sum, 0, 4 * channels);
        for (long at = i * pixels * channels; at < (i + 1) * pixels * channels; at += channels)
            for (long c = 0; c < channels; c += L) {
                vec back = passed(at + c);
                store<L>(sum + c, load<L>(sum + c) + back);
                store<L>(product + c, load<L>(product + c) + back * (load<L>(x + at + c) - load<L>(mean + c)));
            }
        for (long c = 0; c < channels; c++) products[c] += product[c], sums[c] += sum[c];
    }
    const float values = n * pixels;
    for (long c = 0; c < channels; c++) {
        float r = rstd[c];
        if (by_gamma) by_gamma[c] = products[c] * r;
        if (by_beta) by_beta[c] = sums[c];
        scale[c] = gamma ? r * gamma[c] : r;
        products[c] *= -scale[c] * r * r / values;
        sums[c] *= -scale[c] / values;
    }
    for (long at = 0; found && at < n * pixels * channels; at += channels)
        for (long c = 0; c < channels; c += L)
            store<L>(found + at + c, load<L>(scale + c) * passed(at + c) + load<L>(sums + c) +
                                         load<L>(products + c) * (load<L>(x + at + c) - load<L>(mean + c)));
}
