// Max-pools of channels-last images, with the place of every maximum: the number of its pixel in the image.
#pragma once
#include "common.h"

typedef decltype(wide{} > wide{}) Pixels;  // numbers of pixels, for a vector of channels
typedef long Places __attribute__((vector_size(8 * WIDEST)));

struct Pool {
    long n, height, width, channels, high, wide, down, right, pad_h, pad_w, out_height, out_width;
};

// Calls work(output pixel, its first and last row and column of the image), image by image.
template <class Work>
static void windows(const Pool &s, long image, Work work) {
    for (long h = 0, out = image * s.out_height * s.out_width; h < s.out_height; h++)
        for (long w = 0; w < s.out_width; w++, out++) {
            const long top = h * s.down - s.pad_h, left = w * s.right - s.pad_w;
            const long low = top + s.high < s.height ? top + s.high : s.height, far = left + s.wide < s.width ? left + s.wide : s.width;
            work(out, top > 0 ? top : 0, low, left > 0 ? left : 0, far);
        }
}

// Bytes of the places of a vector of channels, of which n are left.
static inline long bytes_of_places(long n) { return 8 * (n < WIDEST ? n : WIDEST); }

// Of equals the first counts, and what is not a number is largest.
static void pool_forward(const Pool &s, const float *x, float *y, long *places) {
    for (long n = 0; n < s.n; n++, x += s.height * s.width * s.channels)
        windows(s, n, [&](long out, long top, long low, long left, long far) {
            over_channels(s.channels, [&](long c, Some some) {
                const long first = top * s.width + left;
                wide best = some.load(x + first * s.channels + c);
                Pixels at = Pixels{} + (int)first;
                for (long h = top; h < low; h++)
                    for (long w = left; w < far; w++) {
                        wide one = some.load(x + (h * s.width + w) * s.channels + c);
                        Pixels take = (one > best) | (one != one);
                        best = take ? one : best, at = take ? Pixels{} + (int)(h * s.width + w) : at;
                    }
                some.store(y + out * s.channels + c, best);
                Places found = __builtin_convertvector(at, Places);
                std::memcpy(places + out * s.channels + c, &found, bytes_of_places(s.channels - c));
            });
        });
}

static void pool_backward(const Pool &s, const float *sent, const long *places, float *found) {
    const long size = s.height * s.width * s.channels;
    for (long n = 0; n < s.n; n++, found += size) {
        std::memset(found, 0, 4 * size);
        windows(s, n, [&](long out, long top, long low, long left, long far) {
            over_channels(s.channels, [&](long c, Some some) {
                Places there = {};
                std::memcpy(&there, places + out * s.channels + c, bytes_of_places(s.channels - c));
                const Pixels at = __builtin_convertvector(there, Pixels);
                const wide one = some.load(sent + out * s.channels + c);
                for (long h = top; h < low; h++)
                    for (long w = left; w < far; w++) {
                        float *to = found + (h * s.width + w) * s.channels + c;
                        some.store(to, some.load(to) + (at == (int)(h * s.width + w) ? one : wide{}));
                    }
            });
        });
    }
}
