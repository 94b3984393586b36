// Depthwise convolutions of channels-last images: every channel has a kernel of its own.
#pragma once
#include "convolution.h"

// B pixels of a vector of channels: the sum over taps of what each sees times the weights of the channels.
template <int B>
static void depth_pixels(const float *x, long x_step, const Tap *taps, long n_taps, long c, float *y, long y_step,
                         const float *bias, Some some) {
    wide sum[B];
    UNROLLED for (int b = 0; b < B; b++) sum[b] = bias ? some.load(bias + c) : wide{};
    for (long t = 0; t < n_taps; t++) {
        wide weight = some.load(taps[t].weights + c);
        const float *seen = x + taps[t].offset + c;
        UNROLLED for (int b = 0; b < B; b++) sum[b] += some.load(seen + b * x_step) * weight;
    }
    UNROLLED for (int b = 0; b < B; b++) some.store(y + b * y_step + c, sum[b]);
}

static void depth_row(long n, const float *x, long x_step, const Tap *taps, long n_taps, long channels, float *y, long y_step,
                      const float *bias) {
    over_channels(channels, [&](long c, Some some) {
        auto at = [&](long p) { return x + p * x_step; };
        long p = 0;
        for (; p + 8 <= n; p += 8) depth_pixels<8>(at(p), x_step, taps, n_taps, c, y + p * y_step, y_step, bias, some);
        for (; p + 2 <= n; p += 2) depth_pixels<2>(at(p), x_step, taps, n_taps, c, y + p * y_step, y_step, bias, some);
        for (; p < n; p++) depth_pixels<1>(at(p), x_step, taps, n_taps, c, y + p * y_step, y_step, bias, some);
    });
}

static void pack_depth(const Shape &s, const float *w, float *packed) {
    for (long t = 0; t < s.high * s.wide; t++)
        for (long c = 0; c < s.n_in; c++)
            packed[t * s.n_in + c] = w[c * s.weight_out + t / s.wide * s.weight_h + t % s.wide * s.weight_w];
}

static void depth_forward(const Shape &s, const float *x, const float *w, const float *bias, float *y, float *packed,
                          float *room) {
    pack_depth(s, w, packed);
    long row = s.room_width * s.n_in, n_taps = s.high * s.wide;
    Tap taps[MOST_TAPS];
    for (long t = 0; t < n_taps; t++)
        taps[t] = {t / s.wide * s.gap_h * row + t % s.wide * s.gap_w * s.n_in, packed + t * s.n_in};
    for (long n = 0; n < s.n; n++) {
        const float *image = image_of(s, x, n, 0, room, row);
        for (long h = 0; h < s.out_height; h++)
            depth_row(s.out_width, image + h * s.down * row, s.right * s.n_in, taps, n_taps, s.n_in,
                         y + (n * s.out_height + h) * s.out_width * s.n_in, s.n_in, bias);
    }
}

static void depth_by_input(const Shape &s, const float *sent, const float *w, float *found, float *packed, float *room) {
    pack_depth(s, w, packed);
    long row = s.room_width * s.n_in;
    for (long n = 0; n < s.n; n++) {
        const float *image = padded(sent + n * s.out_height * s.out_width * s.n_in, room, s.out_height, s.out_width, s.n_in,
                                    s.n_in, s.top, s.left, row);
        for (long a = 0; a < s.down && a < s.height; a++)
            for (long b = 0; b < s.right && b < s.width; b++) {
                Tap taps[MOST_TAPS];
                long n_taps = phase_taps(s, a, b, row, s.n_in, packed, s.n_in, taps);
                long width = (s.width - b + s.right - 1) / s.right;
                for (long h = a; h < s.height; h += s.down)
                    depth_row(width, image + (h - a) / s.down * row, s.n_in, taps, n_taps, s.n_in,
                                 found + ((n * s.height + h) * s.width + b) * s.n_in, s.right * s.n_in, 0);
            }
    }
}

// J taps of a row of the kernel at a vector of channels, summed over the pixels of an image.
template <int J>
static void depth_outer(const Shape &s, const float *x, long row, const float *sent, float *found, Some some) {
    wide sum[J] = {};
    for (long h = 0; h < s.out_height; h++)
        for (long v = 0; v < s.out_width; v++) {
            auto back = some.load(sent + (h * s.out_width + v) * s.n_in);
            const float *seen = x + h * s.down * row + v * s.right * s.n_in;
            UNROLLED for (int j = 0; j < J; j++) sum[j] += some.load(seen + j * s.gap_w * s.n_in) * back;
        }
    UNROLLED for (int j = 0; j < J; j++) some.store(found + j * s.n_in, some.load(found + j * s.n_in) + sum[j]);
}

static void depth_by_weight(const Shape &s, const float *x, const float *sent, float *found, float *bias, float *packed,
                            float *room) {
    long row = s.room_width * s.n_in;
    std::memset(packed, 0, 4 * s.high * s.wide * s.n_in);
    if (bias) std::memset(bias, 0, 4 * s.n_in);
    for (long n = 0; n < s.n; n++) {
        const float *image = image_of(s, x, n, 0, room, row);
        const float *back = sent + n * s.out_height * s.out_width * s.n_in;
        if (bias) add_pixels(back, s.out_height * s.out_width, s.n_in, bias);
        over_channels(s.n_in, [&](long c, Some some) {
            for (long h = 0; h < s.high; h++)
                for (long v = 0; v < s.wide;) {
                    const float *seen = image + h * s.gap_h * row + v * s.gap_w * s.n_in + c;
                    float *into = packed + (h * s.wide + v) * s.n_in + c;
                    if (s.wide - v >= 7) depth_outer<7>(s, seen, row, back + c, into, some), v += 7;
                    else if (s.wide - v >= 3) depth_outer<3>(s, seen, row, back + c, into, some), v += 3;
                    else depth_outer<1>(s, seen, row, back + c, into, some), v += 1;
                }
        });
    }
    for (long t = 0; t < s.high * s.wide; t++)
        for (long c = 0; c < s.n_in; c++)
            found[c * s.weight_out + t / s.wide * s.weight_h + t % s.wide * s.weight_w] = packed[t * s.n_in + c];
}
