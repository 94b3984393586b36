// Convolutions of channels-last images, in blocks of pixels and channels that stay in the registers.
//
// An image is [height, width, channels]. A block of output pixels is the sum over taps (places of the kernel) and input
// channels of one number of the image times a vector of weights. Gradients by the input are such sums, too, with other
// taps for each phase of the stride; gradients by the weights sum over pixels instead. Packed weights have zeros beside
// them, so that any number of channels fills vectors.
#pragma once
#include "common.h"

struct Tap {
    long offset;           // of the pixel that the tap sees, in numbers
    const float *weights;  // [n_in, n_out], in rows that fill vectors
};

// What B pixels find for V vectors of channels, of which the last has `some`.
template <int B, int V>
static void pixels(const float *x, long x_step, const Tap *taps, long n_taps, long n_in, long row, float *y, long y_step,
                   const float *bias, Some some) {
    wide sum[B][V];
    UNROLLED for (int v = 0; v < V; v++) {
        wide begin = bias ? load<WIDEST>(bias + v * WIDEST) : wide{};
        UNROLLED for (int b = 0; b < B; b++) sum[b][v] = begin;
    }
    const int U = V == 1 ? 4 : 2;  // input channels at a time: one address serves them all
    for (long t = 0; t < n_taps; t++) {
        const float *seen = x + taps[t].offset, *w = taps[t].weights;
        long c = 0;
        for (; c + U <= n_in; c += U, w += U * row) {
            wide weight[U][V];
            UNROLLED for (int u = 0; u < U; u++)
                UNROLLED for (int v = 0; v < V; v++) weight[u][v] = load<WIDEST>(w + u * row + v * WIDEST);
            UNROLLED for (int b = 0; b < B; b++)
                UNROLLED for (int u = 0; u < U; u++)
                    UNROLLED for (int v = 0; v < V; v++) sum[b][v] += seen[b * x_step + c + u] * weight[u][v];
        }
        for (; c < n_in; c++, w += row)
            UNROLLED for (int b = 0; b < B; b++)
                UNROLLED for (int v = 0; v < V; v++) sum[b][v] += seen[b * x_step + c] * load<WIDEST>(w + v * WIDEST);
    }
    UNROLLED for (int b = 0; b < B; b++) {
        UNROLLED for (int v = 0; v < V - 1; v++) store<WIDEST>(y + b * y_step + v * WIDEST, sum[b][v]);
        some.store(y + b * y_step + (V - 1) * WIDEST, sum[b][V - 1]);
    }
}

template <int V>
static void some_pixels(int n, const float *x, long x_step, const Tap *taps, long n_taps, long n_in, long row, float *y,
                        long y_step, const float *bias, Some some) {
    switch (n) {
#define CASE(B) \
    case B: return pixels<(B * V <= ACCUMULATORS ? B : 1), V>(x, x_step, taps, n_taps, n_in, row, y, y_step, bias, some);
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
        CASE(13) CASE(14) CASE(15) CASE(16)
#undef CASE
    }
}

// A row of n pixels, for all output channels; a bias fills vectors. Blocks are about equally long: 10 pixels are 5 and 5,
// not 8 and 2.
static void row_of_pixels(long n, const float *x, long x_step, Tap *taps, long n_taps, long n_in, long n_out, float *y,
                          long y_step, const float *bias) {
    const long row = filled(n_out);
    for (long o = 0; o < row;) {
        long vectors = (row - o) / WIDEST;
        int V = vectors >= 4 && n <= ACCUMULATORS / 4 ? 4 : vectors == 3 ? 3 : vectors >= 2 ? 2 : 1;
        long most = ACCUMULATORS / V < 16 ? ACCUMULATORS / V : 16, n_blocks = (n + most - 1) / most;
        const Some some(n_out - o - (V - 1) * WIDEST);
        for (long block = 0; block < n_blocks; block++) {
            long first = block * n / n_blocks, size = (block + 1) * n / n_blocks - first;
            const float *from = x + first * x_step, *b = bias ? bias + o : 0;
            float *to = y + first * y_step + o;
            if (V == 4) some_pixels<4>(size, from, x_step, taps, n_taps, n_in, row, to, y_step, b, some);
            else if (V == 3) some_pixels<3>(size, from, x_step, taps, n_taps, n_in, row, to, y_step, b, some);
            else if (V == 2) some_pixels<2>(size, from, x_step, taps, n_taps, n_in, row, to, y_step, b, some);
            else some_pixels<1>(size, from, x_step, taps, n_taps, n_in, row, to, y_step, b, some);
        }
        for (long t = 0; t < n_taps; t++) taps[t].weights += V * WIDEST;
        o += V * WIDEST;
    }
    for (long t = 0; t < n_taps; t++) taps[t].weights -= row;
}

// J numbers that a row of the kernel sees, times V vectors of what is sent back, summed over the pixels of an image.
template <int J, int V>
static void outer(const float *x, long x_row, long x_step, const float *sent, long sent_step, long height, long width,
                  float *found, long row, Some some) {
    wide sum[J][V] = {};
    for (long h = 0; h < height; h++) {
        const float *seen = x + h * x_row;
        for (long place = 0; place < width; place++, seen += x_step, sent += sent_step) {
            wide back[V];
            UNROLLED for (int v = 0; v < V - 1; v++) back[v] = load<WIDEST>(sent + v * WIDEST);
            back[V - 1] = some.load(sent + (V - 1) * WIDEST);
            UNROLLED for (int j = 0; j < J; j++)
                UNROLLED for (int v = 0; v < V; v++) sum[j][v] += seen[j] * back[v];
        }
    }
    UNROLLED for (int j = 0; j < J; j++)
        UNROLLED for (int v = 0; v < V; v++) {
            float *to = found + j * row + v * WIDEST;
            store<WIDEST>(to, load<WIDEST>(to) + sum[j][v]);
        }
}

template <int V>
static void some_outer(int n, const float *x, long x_row, long x_step, const float *sent, long sent_step, long height, long width,
                       float *found, long row, Some some) {
    switch (n) {
#define CASE(J) \
    case J: \
        return outer<(J * V <= ACCUMULATORS ? J : 1), V>(x, x_row, x_step, sent, sent_step, height, width, found, row, some);
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
        CASE(13) CASE(14) CASE(15) CASE(16)
#undef CASE
    }
}

// The same for n numbers and all output channels; rows of what is found fill vectors.
static void outers(const float *x, long x_row, long x_step, const float *sent, long sent_step, long height, long width, long n, long n_out,
                   float *found) {
    const long row = filled(n_out);
    for (long o = 0; o < row;) {
        long vectors = (row - o) / WIDEST;
        int V = vectors == 3 ? 3 : vectors >= 2 ? 2 : 1;
        long most = ACCUMULATORS / V < 16 ? ACCUMULATORS / V : 16, n_blocks = (n + most - 1) / most;
        const Some some(n_out - o - (V - 1) * WIDEST);
        for (long block = 0; block < n_blocks; block++) {
            long j = block * n / n_blocks, size = (block + 1) * n / n_blocks - j;
            float *into = found + j * row + o;
            if (V == 3) some_outer<3>(size, x + j, x_row, x_step, sent + o, sent_step, height, width, into, row, some);
            else if (V == 2) some_outer<2>(size, x + j, x_row, x_step, sent + o, sent_step, height, width, into, row, some);
            else some_outer<1>(size, x + j, x_row, x_step, sent + o, sent_step, height, width, into, row, some);
        }
        o += V * WIDEST;
    }
}

// The image with a border of zeros, which the buffer already has.
static const float *padded(const float *x, float *room, long height, long width, long channels, long step, long top, long left,
                           long row) {
    if (!room) return x;
    for (long h = 0; h < height; h++) {
        const float *from = x + h * width * step;
        float *to = room + (h + top) * row + left * channels;
        if (step == channels) std::memcpy(to, from, 4 * width * channels);
        else
            for (long v = 0; v < width; v++, from += step, to += channels)
                over_channels(channels, [&](long c, Some some) { some.store(to + c, some.load(from + c)); });
    }
    return room;
}

struct Shape {  // of a convolution, as Python gives it
    long n, height, width, n_in, n_out, high, wide, down, right, pad_h, pad_w, gap_h, gap_w;
    long weight_out, weight_in, weight_h, weight_w;  // steps between neighbours of the weights
    long out_height, out_width, room_height, room_width, top, left;  // room: the padded image that this kernel reads
    long groups;  // that see only channels of their own, n_in and n_out of them

    long x_step() const { return groups * n_in; }  // from pixel to pixel
    long y_step() const { return groups * n_out; }
};

// The channels of an image from c on, with their padding; they must have a room if there are several groups.
static const float *image_of(const Shape &s, const float *x, long n, long c, float *room, long row) {
    return padded(x + n * s.height * s.width * s.x_step() + c, room, s.height, s.width, s.n_in, s.x_step(), s.top, s.left, row);
}

// Weights of every tap and group, [n_in, n_out] or [n_out, n_in], in rows that fill vectors.
static void pack_weights(const Shape &s, const float *w, bool back, float *packed) {
    const long rows = back ? s.n_out : s.n_in, columns = back ? s.n_in : s.n_out, row = filled(columns), n_taps = s.high * s.wide;
    const long down = back ? s.weight_out : s.weight_in, across = back ? s.weight_in : s.weight_out;
    for (long t = 0; t < s.groups * n_taps; t++)
        for (long r = 0; r < rows; r++, packed += row) {
            const float *group = w + t / n_taps * s.n_out * s.weight_out;
            const float *from = group + t % n_taps / s.wide * s.weight_h + t % s.wide * s.weight_w + r * down;
            for (long c = 0; c < columns; c++) packed[c] = from[c * across];
            for (long c = columns; c < row; c++) packed[c] = 0;
        }
}

// A bias with zeros beside it that fill a vector.
static void fill_up(const float *bias, long channels, float *to) {
    for (long c = 0; c < filled(channels); c++) to[c] = c < channels ? bias[c] : 0;
}

// Does something for every image and group, image by image, so that one stays in the cache.
template <class Work>
static void over_groups(const Shape &s, Work work) {
    for (long n = 0; n < s.n; n++)
        for (long g = 0; g < s.groups; g++) work(n, g);
}

static void forward(const Shape &s, const float *x, const float *w, const float *bias, float *y, float *packed, float *room) {
    pack_weights(s, w, false, packed);
    float begin[MOST_CHANNELS + WIDEST];
    long row = s.room_width * s.n_in, n_taps = s.high * s.wide, together = s.n_in;
    if (s.gap_w == 1) n_taps = s.high, together *= s.wide;  // what a row of the kernel sees lies side by side
    over_groups(s, [&](long n, long g) {
        Tap taps[MOST_TAPS];
        for (long t = 0; t < n_taps; t++) {
            const long per_row = s.gap_w == 1 ? 1 : s.wide, at = t / per_row * s.gap_h * row + t % per_row * s.gap_w * s.n_in;
            taps[t] = {at, packed + (g * n_taps + t) * together * filled(s.n_out)};
        }
        if (bias) fill_up(bias + g * s.n_out, s.n_out, begin);
        const float *image = image_of(s, x, n, g * s.n_in, room, row);
        for (long h = 0; h < s.out_height; h++)
            row_of_pixels(s.out_width, image + h * s.down * row, s.right * s.n_in, taps, n_taps, together, s.n_out,
                          y + (n * s.out_height + h) * s.out_width * s.y_step() + g * s.n_out, s.y_step(), bias ? begin : 0);
    });
}

static long below(long a, long b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// The taps that saw the pixels of a phase of the stride, as places in an image of what is sent back; returns how many.
static long phase_taps(const Shape &s, long a, long b, long row, long channels, const float *packed, long each, Tap *taps) {
    long n_taps = 0;
    for (long h = 0; h < s.high; h++)
        for (long v = 0; v < s.wide; v++) {
            long down = a + s.pad_h - h * s.gap_h, right = b + s.pad_w - v * s.gap_w;
            if (down % s.down || right % s.right) continue;
            long at = (below(down, s.down) + s.top) * row + (below(right, s.right) + s.left) * channels;
            taps[n_taps++] = {at, packed + (h * s.wide + v) * each};
        }
    return n_taps;
}

// With a bias for what a transposed convolution finds.
static void by_input(const Shape &s, const float *sent, const float *w, const float *bias, float *found, float *packed, float *room) {
    pack_weights(s, w, true, packed);
    float begin[MOST_CHANNELS + WIDEST];
    long row = s.room_width * s.n_out;
    const long each = s.n_out * filled(s.n_in);
    over_groups(s, [&](long n, long g) {
        if (bias) fill_up(bias + g * s.n_in, s.n_in, begin);
        const float *image = padded(sent + n * s.out_height * s.out_width * s.y_step() + g * s.n_out, room, s.out_height,
                                    s.out_width, s.n_out, s.y_step(), s.top, s.left, row);
        float *to = found + n * s.height * s.width * s.x_step() + g * s.n_in;
        for (long a = 0; a < s.down && a < s.height; a++)
            for (long b = 0; b < s.right && b < s.width; b++) {
                Tap taps[MOST_TAPS];
                long n_taps = phase_taps(s, a, b, row, s.n_out, packed + g * s.high * s.wide * each, each, taps);
                long width = (s.width - b + s.right - 1) / s.right;
                for (long h = a; h < s.height; h += s.down)
                    row_of_pixels(width, image + (h - a) / s.down * row, s.n_out, taps, n_taps, s.n_out, s.n_in,
                                  to + (h * s.width + b) * s.x_step(), s.right * s.x_step(), bias ? begin : 0);
            }
    });
}

// What the pixels of an image sum up to, added to what was found before; first by themselves, which rounds less.
static void add_pixels(const float *image, long pixels, long channels, float *found) {
    over_channels(channels, [&](long c, Some some) {
        wide sum[2] = {};
        long p = 0;
        for (; p + 2 <= pixels; p += 2)
            UNROLLED for (int k = 0; k < 2; k++) sum[k] += some.load(image + (p + k) * channels + c);
        if (p < pixels) sum[0] += some.load(image + p * channels + c);
        some.store(found + c, some.load(found + c) + (sum[0] + sum[1]));
    });
}

const long PIECE = 4096;  // numbers of an image and of what is sent back to it that stay in the first cache

// Calls work(first row, first column, rows, columns) for pieces of the output: some rows, or a part of one.
template <class Work>
static void in_pieces(const Shape &s, Work work) {
    const long pixels = PIECE / (s.n_in * s.down * s.right + s.n_out) + 1;
    const long rows = pixels / s.out_width > 0 ? pixels / s.out_width : 1, wide = s.out_height > 1 ? s.out_width : pixels;
    for (long h = 0; h < s.out_height; h += rows)
        for (long v = 0; v < s.out_width; v += wide)
            work(h, v, s.out_height - h < rows ? s.out_height - h : rows, s.out_width - v < wide ? s.out_width - v : wide);
}

// Has numbers brought near that are read soon, in an order that processors do not foresee.
static void ask_for(const float *from, long n) {
    for (long k = 0; k < n; k += 16) __builtin_prefetch(from + k, 0, 3);
}

static void by_weight(const Shape &s, const float *x, const float *sent, float *found, float *bias, float *packed,
                      float *room) {
    long row = s.room_width * s.n_in, together = s.gap_w == 1 ? s.wide * s.n_in : s.n_in;
    const long across = filled(s.n_out), n_taps = s.high * s.wide, each = n_taps * s.n_in * across;
    std::memset(packed, 0, 4 * s.groups * each);
    if (bias) std::memset(bias, 0, 4 * s.y_step());
    over_groups(s, [&](long n, long g) {
        const float *image = image_of(s, x, n, g * s.n_in, room, row);
        const float *back = sent + n * s.out_height * s.out_width * s.y_step();
        if (bias && !g) add_pixels(back, s.out_height * s.out_width, s.y_step(), bias);
        in_pieces(s, [&](long h, long v, long height, long width) {
            const float *seen = image + h * s.down * row + v * s.right * s.n_in;
            const float *from = back + (h * s.out_width + v) * s.y_step() + g * s.n_out;
            const long pixels = height * width, read = pixels * s.down * s.right * s.n_in;
            if (!g) ask_for(from + pixels * s.y_step(), pixels * s.y_step());  // of the next piece
            if (!room) ask_for(seen + read, read);
            for (long t = 0; t < n_taps * s.n_in / together; t++) {
                long per_row = s.wide * s.n_in / together;
                const float *corner = seen + t / per_row * s.gap_h * row + t % per_row * s.gap_w * s.n_in;
                float *into = packed + g * each + t * together * across;
                outers(corner, s.down * row, s.right * s.n_in, from, s.y_step(), height, width, together, s.n_out, into);
            }
        });
    });
    for (long t = 0; t < s.groups * n_taps; t++)
        for (long i = 0; i < s.n_in; i++) {
            float *to = found + i * s.weight_in + t % n_taps / s.wide * s.weight_h + t % s.wide * s.weight_w;
            for (long o = 0; o < s.n_out; o++)
                to[(t / n_taps * s.n_out + o) * s.weight_out] = packed[(t * s.n_in + i) * across + o];
        }
}
