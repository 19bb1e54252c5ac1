// The examples' kernels. kernels.ptx is what NVRTC 12.4 makes of this for sm_50, which every driver of CUDA 11 and later takes:
// after a change, make it again, and check it with `ptxas -arch=sm_50 kernels.ptx`.
//
// The fake driver has the same by name, in Rust: proof/gpu-fake/src/kernels.rs.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

__device__ u32 sum_of_four(u32 four)
{
    u32 pairs = (four & 0x00ff00ff) + (four >> 8 & 0x00ff00ff);
    return (pairs & 0xffff) + (pairs >> 16);
}

/// Adds all bytes to `sum`. They begin at a multiple of 16.
extern "C" __global__ void outlive_sum(const u8 *bytes, u64 len, u64 *sum)
{
    u64 step = (u64)gridDim.x * blockDim.x, first = (u64)blockIdx.x * blockDim.x + threadIdx.x, own = 0;
    for (u64 at = first; at < len / 16; at += step) {
        uint4 many = ((const uint4 *)bytes)[at];
        own += sum_of_four(many.x) + sum_of_four(many.y) + sum_of_four(many.z) + sum_of_four(many.w);
    }
    for (u64 at = len / 16 * 16 + first; at < len; at += step)
        own += bytes[at];
    atomicAdd(sum, own);
}

struct vec {
    float x, y, z;
};

__device__ vec add(vec a, vec b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
__device__ vec times(vec a, float b) { return {a.x * b, a.y * b, a.z * b}; }
__device__ vec mix(vec a, vec b, float part) { return add(times(a, 1.0f - part), times(b, part)); }
__device__ float dot(vec a, vec b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__device__ vec unit(vec a) { return times(a, 1.0f / sqrtf(dot(a, a))); }

/// Where the ball of that number is in that frame; `w` is its radius.
__device__ float4 ball(int number, float time)
{
    float turn = time * 0.9f + number * 2.0943951f, bounce = sinf(time * 2.2f + number * 1.3f);
    return {1.75f * cosf(turn), 0.62f + 0.75f * fabsf(bounce), 1.75f * sinf(turn), 0.62f};
}

__device__ vec colour_of(int number)
{
    return number == 0 ? vec{0.95f, 0.26f, 0.21f} : number == 1 ? vec{0.13f, 0.59f, 0.95f} : vec{1.0f, 0.76f, 0.03f};
}

/// What a ray meets first: a ball's number, 3 for the floor, -1 for nothing; and how far away.
__device__ int meet(vec from, vec to, float time, float *distance)
{
    int met = -1;
    *distance = 60.0f;
    if (to.y < -0.001f) {
        *distance = fminf(-from.y / to.y, 60.0f);
        met = *distance < 60.0f ? 3 : -1;
    }
    for (int number = 0; number < 3; number++) {
        float4 at = ball(number, time);
        vec away = {from.x - at.x, from.y - at.y, from.z - at.z};
        float b = dot(away, to), root = b * b - dot(away, away) + at.w * at.w;
        float far = root > 0.0f ? -b - sqrtf(root) : -1.0f;
        if (far > 0.001f && far < *distance) {
            *distance = far;
            met = number;
        }
    }
    return met;
}

/// The light that comes along a ray; a ball shows what it mirrors once.
__device__ vec light_of(vec from, vec to, float time)
{
    const vec sun = unit({0.5f, 0.8f, -0.35f});
    vec seen = {0.0f, 0.0f, 0.0f};
    float weight = 1.0f;
    for (int mirrored = 0; mirrored < 2; mirrored++) {
        float distance, unused;
        int met = meet(from, to, time, &distance);
        vec sky = mix({0.93f, 0.95f, 1.0f}, {0.24f, 0.44f, 0.78f}, fminf(fmaxf(to.y * 1.6f, 0.0f), 1.0f));
        if (met < 0)
            return add(seen, times(sky, weight));
        vec place = add(from, times(to, distance)), normal = {0.0f, 1.0f, 0.0f}, colour;
        if (met == 3) {
            int squares = (int)floorf(place.x) + (int)floorf(place.z);
            colour = squares & 1 ? vec{0.85f, 0.85f, 0.82f} : vec{0.20f, 0.23f, 0.28f};
        } else {
            float4 at = ball(met, time);
            normal = times({place.x - at.x, place.y - at.y, place.z - at.z}, 1.0f / at.w);
            colour = colour_of(met);
        }
        vec above = add(place, times(normal, 0.002f));
        float lit = meet(above, sun, time, &unused) < 0 ? fmaxf(dot(normal, sun), 0.0f) : 0.0f;
        vec own = times(colour, 0.3f + 0.8f * lit);
        if (met == 3)
            return add(seen, times(mix(own, sky, fminf(distance / 22.0f, 1.0f)), weight));
        seen = add(seen, times(own, weight * 0.72f));
        weight *= 0.28f;
        from = above;
        to = add(to, times(normal, -2.0f * dot(to, normal)));
    }
    return seen;
}

__device__ u32 byte_of(float light)
{
    return (u32)(fminf(fmaxf(light, 0.0f), 1.0f) * 255.0f + 0.5f);
}

/// Makes frame `number` of a film: three balls that go round and bounce. Pixels are of four bytes: red, green, blue, 255.
extern "C" __global__ void outlive_render(u32 *picture, u32 width, u32 height, u32 number)
{
    u32 x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    float right = (2.0f * x + 1.0f - width) / height, up = (height - 2.0f * y - 1.0f) / height;
    vec from = {0.0f, 2.0f, -6.5f};
    vec light = light_of(from, unit({right, up - 0.42f, 2.9f}), number / 30.0f);
    picture[y * width + x] = byte_of(light.x) | byte_of(light.y) << 8 | byte_of(light.z) << 16 | 0xff000000u;
}

__device__ int grey_at(const u32 *picture, u32 width, u32 height, int x, int y)
{
    x = min(max(x, 0), (int)width - 1);
    y = min(max(y, 0), (int)height - 1);
    u32 pixel = picture[y * width + x];
    return (77 * (pixel & 255) + 150 * (pixel >> 8 & 255) + 29 * (pixel >> 16 & 255)) >> 8;
}

/// Edges: each pixel as bright as the picture changes there (Sobel), in its own colour.
extern "C" __global__ void outlive_filter(const u32 *from, u32 *to, u32 width, u32 height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= (int)width || y >= (int)height)
        return;
    int across = 0, down = 0;
    for (int step = -1; step <= 1; step++) {
        int weight = step == 0 ? 2 : 1;
        across += weight * (grey_at(from, width, height, x + 1, y + step) - grey_at(from, width, height, x - 1, y + step));
        down += weight * (grey_at(from, width, height, x + step, y + 1) - grey_at(from, width, height, x + step, y - 1));
    }
    u32 strength = min(abs(across) + abs(down), 510), pixel = from[y * width + x], made = 0xff000000u;
    for (u32 shift = 0; shift < 24; shift += 8)
        made |= min((96 + (pixel >> shift & 255)) * strength / 510, 255u) << shift;
    to[y * width + x] = made;
}
