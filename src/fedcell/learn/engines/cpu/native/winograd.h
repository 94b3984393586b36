// Convolutions with kernels of 3 x 3 and steps of 1, four output pixels at a time with 16 products in place of 36.
//
// With d the 4 x 4 pixels under a tile of 2 x 2 outputs and g the kernel, the tile is A' [(G g G') . (B' d B)] A, where `.`
// goes entry by entry: for each of the 16 entries that is a product of matrices, tiles by channels. Gradients are such
// sums, too: by the input with the kernel turned around, by the kernel G' [(A y A') . (B' d B)] G summed over the tiles.
//
// Reference: Lavin, Gray, Fast Algorithms for Convolutional Neural Networks, 2016: F(2 x 2, 3 x 3).
#pragma once
#include "convolution.h"

struct Images {  // what is read, with its border, and what is written
    long n, height, width, n_in, out_height, out_width, n_out, room_width, top, left, block;

    long tiles() const { return n * ((out_height + 1) / 2) * ((out_width + 1) / 2); }
};

struct Place {  // of a tile: its image, and its first output pixel
    long image = 0, down = 0, right = 0;

    void next(const Images &s) {
        if ((right += 2) < s.out_width) return;
        right = 0;
        if ((down += 2) < s.out_height) return;
        down = 0, image++;
    }
};

template <class vec>
static inline void into(vec a, vec b, vec c, vec d, vec *found) {  // B'
    found[0] = a - c, found[1] = b + c, found[2] = c - b, found[3] = b - d;
}

// Some tiles, for every entry one behind the other: v is [16, block, n_in]. Neighbours in a row share half of their pixels.
template <int L>
static void tiles_in(const Images &s, Place at, long n, const float *x, float *room, float *v) {
    typedef typename Vec<L>::type vec;
    long row = s.room_width * s.n_in, entry = s.block * s.n_in;
    for (long t = 0, run; t < n; t += run) {
        run = (s.out_width + 1 - at.right) / 2;
        if (run > n - t) run = n - t;
        if (!at.down && !at.right)  // otherwise it is there
            padded(x + at.image * s.height * s.width * s.n_in, room, s.height, s.width, s.n_in, s.top, s.left, row);
        const float *corner = room + at.down * row + at.right * s.n_in;
        for (long c = 0; c < s.n_in; c += L) {
            vec half[4][4], whole[4];
            auto column = [&](long place, vec *found) {
                const float *d = corner + place * s.n_in + c;
                into(load<L>(d), load<L>(d + row), load<L>(d + 2 * row), load<L>(d + 3 * row), found);
            };
            column(0, half[2]), column(1, half[3]);
            for (long r = 0; r < run; r++) {
                for (int i = 0; i < 4; i++) half[0][i] = half[2][i], half[1][i] = half[3][i];
                column(2 * r + 2, half[2]), column(2 * r + 3, half[3]);
                for (int i = 0; i < 4; i++) {
                    into(half[0][i], half[1][i], half[2][i], half[3][i], whole);
                    for (int j = 0; j < 4; j++) store<L>(v + (4 * i + j) * entry + (t + r) * s.n_in + c, whole[j]);
                }
            }
        }
        for (long r = 0; r < run; r++) at.next(s);
    }
}

// And back: from m, [16, block, n_out], to the outputs; returns the place of the next tile.
template <int L>
static Place tiles_out(const Images &s, Place at, long n, const float *m, const float *bias, float *y) {
    typedef typename Vec<L>::type vec;
    long entry = s.block * s.n_out;
    for (long t = 0; t < n; t++, at.next(s)) {
        float *corner = y + ((at.image * s.out_height + at.down) * s.out_width + at.right) * s.n_out;
        for (long c = 0; c < s.n_out; c += L) {
            vec half[2][4], begin = bias ? load<L>(bias + c) : vec{};
            for (int j = 0; j < 4; j++) {
                vec a[4];
                for (int i = 0; i < 4; i++) a[i] = load<L>(m + (4 * i + j) * entry + t * s.n_out + c);
                half[0][j] = a[0] + a[1] + a[2], half[1][j] = a[1] - a[2] - a[3];
            }
            for (int i = 0; i < 2 && at.down + i < s.out_height; i++) {
                float *to = corner + i * s.out_width * s.n_out + c;
                store<L>(to, half[i][0] + half[i][1] + half[i][2] + begin);
                if (at.right + 1 < s.out_width) store<L>(to + s.n_out, half[i][1] - half[i][2] - half[i][3] + begin);
            }
        }
    }
    return at;
}

// What is sent back by some tiles, z is [16, block, n_out]: A y A'.
template <int L>
static Place tiles_sent(const Images &s, Place at, long n, const float *y, float *z) {
    typedef typename Vec<L>::type vec;
    long entry = s.block * s.n_out;
    for (long t = 0; t < n; t++, at.next(s)) {
        const float *corner = y + ((at.image * s.out_height + at.down) * s.out_width + at.right) * s.n_out;
        for (long c = 0; c < s.n_out; c += L) {
            vec a[2][2] = {};
            for (int i = 0; i < 2 && at.down + i < s.out_height; i++)
                for (int j = 0; j < 2 && at.right + j < s.out_width; j++)
                    a[i][j] = load<L>(corner + (i * s.out_width + j) * s.n_out + c);
            for (int i = 0; i < 4; i++) {
                vec l = i == 0 ? a[0][0] : i == 1 ? a[0][0] + a[1][0] : i == 2 ? a[0][0] - a[1][0] : -a[1][0];
                vec r = i == 0 ? a[0][1] : i == 1 ? a[0][1] + a[1][1] : i == 2 ? a[0][1] - a[1][1] : -a[1][1];
                float *to = z + 4 * i * entry + t * s.n_out + c;
                store<L>(to, l), store<L>(to + entry, l + r), store<L>(to + 2 * entry, l - r), store<L>(to + 3 * entry, -r);
            }
        }
    }
    return at;
}

template <class vec>
static inline void spread(vec a, vec b, vec c, vec *found) {  // G
    found[0] = a, found[1] = 0.5f * (a + b + c), found[2] = 0.5f * (a - b + c), found[3] = c;
}

template <class vec>
static inline void gather(vec a, vec b, vec c, vec d, vec *found) {  // G'
    found[0] = a + 0.5f * (b + c), found[1] = 0.5f * (b - c), found[2] = 0.5f * (b + c) + d;
}

// The 16 entries of the kernel between L input channels, which lie side by side, and one output channel.
template <int L>
static void entries_of(const Shape &s, const float *g, bool back, typename Vec<L>::type *found) {
    typedef typename Vec<L>::type vec;
    vec half[3][4];
    for (int v = 0; v < 3; v++) {
        vec tap[3];
        for (int h = 0; h < 3; h++) tap[h] = load<L>(g + (back ? 2 - h : h) * s.weight_h + (back ? 2 - v : v) * s.weight_w);
        spread(tap[0], tap[1], tap[2], half[v]);
    }
    for (int k = 0; k < 4; k++) spread(half[0][k], half[1][k], half[2][k], found + 4 * k);
}

// The kernel as [16, n_in, n_out]; or turned around, as [16, n_out, n_in].
template <int L>
static void kernel_in(const Shape &s, const float *w, bool back, float *u) {
    typename Vec<L>::type entries[L][16];
    for (long o = 0; o < s.n_out; o += L)
        for (long i = 0; i < s.n_in; i += L) {
            for (int k = 0; k < L; k++) entries_of<L>(s, w + (o + k) * s.weight_out + i, back, entries[k]);
            for (int e = 0; e < 16; e++)
                for (int c = 0; c < L; c++) {
                    float *to = u + e * s.n_in * s.n_out + (back ? (o + c) * s.n_in + i : (i + c) * s.n_out + o);
                    if (back) store<L>(to, entries[c][e]);
                    else
                        for (int k = 0; k < L; k++) to[k] = entries[k][e][c];
                }
        }
}

template <int L>
static void winograd_images(const Images &s, const float *x, const float *u, const float *bias, float *y, float *room,
                            float *rooms) {
    float *v = rooms, *m = v + 16 * s.block * s.n_in;
    Place at;
    for (long left = s.tiles(); left > 0; left -= s.block) {
        long n = left < s.block ? left : s.block;
        tiles_in<L>(s, at, n, x, room, v);
        for (long k = 0; k < 16; k++) {
            Tap one = {0, u + k * s.n_in * s.n_out};
            row_of_pixels<L>(n, v + k * s.block * s.n_in, s.n_in, &one, 1, s.n_in, s.n_out, m + k * s.block * s.n_out,
                             s.n_out, 0);
        }
        at = tiles_out<L>(s, at, n, m, bias, y);
    }
}

// u becomes [16, n_out, n_in], found the gradient by the kernel.
template <int L>
static void winograd_kernel(const Images &s, const Shape &w, const float *x, const float *sent, float *found, float *bias,
                            float *u, float *room, float *rooms) {
    typedef typename Vec<L>::type vec;
    float *v = rooms, *z = v + 16 * s.block * s.n_in;
    std::memset(u, 0, 64 * s.n_in * s.n_out);
    if (bias) std::memset(bias, 0, 4 * s.n_out);
    for (long n = 0; bias && n < s.n; n++)
        add_pixels(sent + n * s.out_height * s.out_width * s.n_out, s.out_height * s.out_width, s.n_out, bias);
    Place at;
    for (long left = s.tiles(); left > 0; left -= s.block) {
        long n = left < s.block ? left : s.block;
        tiles_in<L>(s, at, n, x, room, v);
        at = tiles_sent<L>(s, at, n, sent, z);
        for (long k = 0; k < 16; k++)
            outers<L>(z + k * s.block * s.n_out, 0, s.n_out, v + k * s.block * s.n_in, 1, n, s.n_out, s.n_in,
                      u + k * s.n_in * s.n_out);
    }
    for (long o = 0; o < s.n_out; o++)
        for (long i = 0; i < s.n_in; i += L) {
            vec half[4][3], whole[3];
            for (int j = 0; j < 4; j++) {
                vec a[4];
                for (int k = 0; k < 4; k++) a[k] = load<L>(u + ((4 * k + j) * s.n_out + o) * s.n_in + i);
                gather(a[0], a[1], a[2], a[3], half[j]);
            }
            for (int h = 0; h < 3; h++) {
                gather(half[0][h], half[1][h], half[2][h], half[3][h], whole);
                for (int c = 0; c < 3; c++) store<L>(found + o * w.weight_out + i + h * w.weight_h + c * w.weight_w, whole[c]);
            }
        }
}
