// Convolutions with steps of 1, a tile of M x M output pixels at a time, with N x N products in place of M x M x R x R.
//
// With d the N x N pixels under a tile, N = M + R - 1, and g the kernel of R x R, the tile is A' [(G g G') . (B' d B)] A,
// where `.` goes entry by entry: for each of the N x N entries that is a product of matrices, tiles by channels. Gradients
// are such sums, too: by the input with the kernel turned around, by the kernel G' [(A y A') . (B' d B)] G summed over the
// tiles. (M, R) is (2, 3), (4, 3) or (2, 5).
//
// Reference: Lavin, Gray, Fast Algorithms for Convolutional Neural Networks, 2016.
#pragma once
#include "convolution.h"
#include "transforms.h"
#include "squares.h"

const long APART = 16;

struct Images {  // what is read, with its border, and what is written
    long n, height, width, n_in, out_height, out_width, n_out, room_width, top, left, block;

    // Numbers of an entry of all tiles that are worked on at a time, in rows that fill vectors; a few more, so that entries
    // share no place in the cache.
    long entry(long channels) const { return block * filled(channels) + APART; }
    long tiles(int M) const { return n * ((out_height + M - 1) / M) * ((out_width + M - 1) / M); }
};

template <int M>
struct Place {  // of a tile: its image, and its first output pixel
    long image = 0, down = 0, right = 0;

    void next(const Images &s) {
        if ((right += M) < s.out_width) return;
        right = 0;
        if ((down += M) < s.out_height) return;
        down = 0, image++;
    }
};

// Some tiles, for every entry one behind the other: v is [N x N, block, n_in], with anything beside n_in. Neighbours in a row share columns of pixels.
template <int M, int R>
static void tiles_in(const Images &s, Place<M> at, long n, const float *x, float *room, float *v) {
    const int N = M + R - 1;
    const long row = s.room_width * s.n_in, across = filled(s.n_in), entry = s.entry(s.n_in);
    for (long t = 0, run; t < n; t += run) {
        run = (s.out_width + M - 1 - at.right) / M;
        if (run > n - t) run = n - t;
        if (!at.down && !at.right)  // otherwise it is there
            padded(x + at.image * s.height * s.width * s.n_in, room, s.height, s.width, s.n_in, s.n_in, s.top, s.left, row);
        const float *corner = room + at.down * row + at.right * s.n_in;
        for (long c = 0; c < s.n_in; c += WIDEST) {
            wide half[N][N], line[N], whole[N];
            auto column = [&](long place, wide(&found)[N]) {
                const float *d = corner + place * s.n_in + c;
                for (int i = 0; i < N; i++) line[i] = load<WIDEST>(d + i * row);
                into(line, found);
            };
            for (int j = 0; j < R - 1; j++) column(j, half[M + j]);
            for (long r = 0; r < run; r++) {
                for (int j = 0; j < R - 1; j++)
                    for (int i = 0; i < N; i++) half[j][i] = half[M + j][i];
                for (int j = R - 1; j < N; j++) column(M * r + j, half[j]);
                for (int i = 0; i < N; i++) {
                    for (int j = 0; j < N; j++) line[j] = half[j][i];
                    into(line, whole);
                    for (int j = 0; j < N; j++) store<WIDEST>(v + (N * i + j) * entry + (t + r) * across + c, whole[j]);
                }
            }
        }
        for (long r = 0; r < run; r++) at.next(s);
    }
}

// And back: from m, [N x N, block, n_out], to the outputs; returns the place of the next tile.
template <int M, int R>
static Place<M> tiles_out(const Images &s, Place<M> at, long n, const float *m, const float *bias, float *y) {
    const int N = M + R - 1;
    const long across = filled(s.n_out), entry = s.entry(s.n_out);
    for (long t = 0; t < n; t++, at.next(s)) {
        float *corner = y + ((at.image * s.out_height + at.down) * s.out_width + at.right) * s.n_out;
        over_channels(s.n_out, [&](long c, Some part) {
            wide half[M][N], line[N], some[M], begin = bias ? part.load(bias + c) : wide{};
            for (int j = 0; j < N; j++) {
                for (int i = 0; i < N; i++) line[i] = load<WIDEST>(m + (N * i + j) * entry + t * across + c);
                out_of(line, some);
                for (int i = 0; i < M; i++) half[i][j] = some[i];
            }
            for (int i = 0; i < M && at.down + i < s.out_height; i++) {
                out_of(half[i], some);
                for (int j = 0; j < M && at.right + j < s.out_width; j++)
                    part.store(corner + (i * s.out_width + j) * s.n_out + c, some[j] + begin);
            }
        });
    }
    return at;
}

// What is sent back by some tiles, z is [N x N, block, n_out]: A y A'.
template <int M, int R>
static Place<M> tiles_sent(const Images &s, Place<M> at, long n, const float *y, float *z) {
    const int N = M + R - 1;
    const long across = filled(s.n_out), entry = s.entry(s.n_out);
    for (long t = 0; t < n; t++, at.next(s)) {
        const float *corner = y + ((at.image * s.out_height + at.down) * s.out_width + at.right) * s.n_out;
        over_channels(s.n_out, [&](long c, Some part) {
            wide half[N][M], line[M], whole[N];
            for (int j = 0; j < M; j++) {
                for (int i = 0; i < M; i++)
                    line[i] = at.down + i < s.out_height && at.right + j < s.out_width
                                  ? part.load(corner + (i * s.out_width + j) * s.n_out + c)
                                  : wide{};
                back_from(line, whole);
                for (int i = 0; i < N; i++) half[i][j] = whole[i];
            }
            for (int i = 0; i < N; i++) {
                back_from(half[i], whole);
                for (int j = 0; j < N; j++) store<WIDEST>(z + (N * i + j) * entry + t * across + c, whole[j]);
            }
        });
    }
    return at;
}

// The entries of the kernel between a vector of input channels, which lie side by side, and one output channel.
template <int M, int R, int N>
static void entries_of(const Shape &s, const float *g, bool back, Some part, wide (&found)[N][N]) {
    wide half[N][R], line[R], whole[N];
    for (int v = 0; v < R; v++) {
        for (int h = 0; h < R; h++)
            line[h] = part.load(g + (back ? R - 1 - h : h) * s.weight_h + (back ? R - 1 - v : v) * s.weight_w);
        spread(line, whole);
        for (int i = 0; i < N; i++) half[i][v] = whole[i];
    }
    for (int i = 0; i < N; i++) spread(half[i], found[i]);
}

// The kernel as [N x N, n_in, n_out]; or turned around, as [N x N, n_out, n_in]. Rows fill vectors.
template <int M, int R>
static void kernel_in(const Shape &s, const float *w, bool back, float *u) {
    const int N = M + R - 1;
    const long rows = back ? s.n_out : s.n_in, row = filled(back ? s.n_in : s.n_out);
    wide entries[WIDEST][N][N];
    float square[WIDEST * WIDEST];
    for (long o = 0; o < s.n_out; o += WIDEST)
        for (long i = 0; i < s.n_in; i += WIDEST) {
            const long outs = s.n_out - o < WIDEST ? s.n_out - o : WIDEST, ins = s.n_in - i < WIDEST ? s.n_in - i : WIDEST;
            for (long k = 0; k < outs; k++)
                entries_of<M, R>(s, w + (o + k) * s.weight_out + i, back, Some(ins), entries[k]);
            if (outs < WIDEST) std::memset(entries[outs], 0, sizeof(entries[0]) * (WIDEST - outs));
            for (int e = 0; e < N * N; e++) {
                const float *from = (const float *)&entries[0][e / N][e % N];
                float *to = u + e * rows * row + (back ? o * row + i : i * row + o);
                if (back)
                    for (long c = 0; c < outs; c++) std::memcpy(to + c * row, from + c * N * N * WIDEST, 4 * WIDEST);
                else if (ins == WIDEST) turned(from, N * N * WIDEST, to, row);
                else {
                    turned(from, N * N * WIDEST, square, WIDEST);
                    for (long c = 0; c < ins; c++) std::memcpy(to + c * row, square + c * WIDEST, 4 * WIDEST);
                }
            }
        }
}

template <int M, int R>
static void winograd_images(const Images &s, const float *x, const float *u, const float *bias, float *y, float *room,
                            float *rooms) {
    const int N = M + R - 1;
    const long across = filled(s.n_out);
    float *v = rooms, *m = v + N * N * s.entry(s.n_in);
    Place<M> at;
    for (long left = s.tiles(M); left > 0; left -= s.block) {
        long n = left < s.block ? left : s.block;
        tiles_in<M, R>(s, at, n, x, room, v);
        for (long k = 0; k < N * N; k++) {
            Tap one = {0, u + k * s.n_in * across};
            row_of_pixels(n, v + k * s.entry(s.n_in), filled(s.n_in), &one, 1, s.n_in, across, m + k * s.entry(s.n_out), across, 0);
        }
        at = tiles_out<M, R>(s, at, n, m, bias, y);
    }
}

// u becomes [N x N, n_out, n_in], in rows that fill vectors, found the gradient by the kernel.
template <int M, int R>
static void winograd_kernel(const Images &s, const Shape &w, const float *x, const float *sent, float *found, float *bias,
                            float *u, float *room, float *rooms) {
    const int N = M + R - 1;
    float *v = rooms, *z = v + N * N * s.entry(s.n_in);
    const long across = filled(s.n_in);
    std::memset(u, 0, 4 * N * N * s.n_out * across);
    if (bias) std::memset(bias, 0, 4 * s.n_out);
    for (long n = 0; bias && n < s.n; n++)
        add_pixels(sent + n * s.out_height * s.out_width * s.n_out, s.out_height * s.out_width, s.n_out, bias);
    Place<M> at;
    for (long left = s.tiles(M); left > 0; left -= s.block) {
        long n = left < s.block ? left : s.block;
        tiles_in<M, R>(s, at, n, x, room, v);
        at = tiles_sent<M, R>(s, at, n, sent, z);
        for (long k = 0; k < N * N; k++)
            outers(z + k * s.entry(s.n_out), 0, filled(s.n_out), v + k * s.entry(s.n_in), across, 1, n, s.n_out, across,
                   u + k * s.n_out * across);
    }
    for (long o = 0; o < s.n_out; o++)
        over_channels(s.n_in, [&](long i, Some part) {
            wide half[R][N], line[N], some[R];
            for (int j = 0; j < N; j++) {
                for (int k = 0; k < N; k++) line[k] = load<WIDEST>(u + ((N * k + j) * s.n_out + o) * across + i);
                gather(line, some);
                for (int h = 0; h < R; h++) half[h][j] = some[h];
            }
            for (int h = 0; h < R; h++) {
                gather(half[h], some);
                for (int c = 0; c < R; c++) part.store(found + o * w.weight_out + i + h * w.weight_h + c * w.weight_w, some[c]);
            }
        });
}
