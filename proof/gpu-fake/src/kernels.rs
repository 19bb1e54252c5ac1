//! The kernels that this driver knows, by name: those of
//! crates/outlive-gpu/examples/kernels/kernels.cu, line by line.

use crate::{Code, ILLEGAL_ADDRESS, device_memory};

/// How many threads there are, of all blocks.
#[derive(Clone, Copy)]
pub(crate) struct Threads {
    pub(crate) x: u64,
    pub(crate) y: u64,
}

/// What a kernel does, given its parameters.
pub(crate) type Body = fn(Threads, &[u64]) -> Result<(), Code>;

const PLACE: usize = 8;
const NUMBER: usize = 4;

/// By name: what it does, and the bytes of its parameters.
const KNOWN: [(&str, Body, &[usize]); 3] = [
    ("outlive_sum", sum, &[PLACE, 8, PLACE]),
    ("outlive_render", render, &[PLACE, NUMBER, NUMBER, NUMBER]),
    ("outlive_filter", filter, &[PLACE, PLACE, NUMBER, NUMBER]),
];

pub(crate) fn find(name: &str) -> Option<(Body, &'static [usize])> {
    KNOWN.iter().find(|known| known.0 == name).map(|known| (known.1, known.2))
}

/// Returns device memory as so many values, to be read.
fn values<'m, T: 'm>(address: u64, count: u64) -> Result<&'m [T], Code> {
    let memory =
        device_memory::find(address, bytes_of::<T>(count)?).map_err(|_| ILLEGAL_ADDRESS)?;
    let at = memory.at(address as usize).cast::<T>();
    if !at.is_aligned() {
        return Err(ILLEGAL_ADDRESS);
    }
    // SAFETY: so many values are there, and stay until the kernel is over: a thread that frees
    // memory waits for the streams. The launcher has promised that no thread writes there
    // meanwhile.
    Ok(unsafe { std::slice::from_raw_parts(at, count as usize) })
}

fn bytes_of<T>(count: u64) -> Result<usize, Code> {
    usize::try_from(count)
        .ok()
        .and_then(|count| count.checked_mul(size_of::<T>()))
        .ok_or(ILLEGAL_ADDRESS)
}

/// Returns the same, to be written.
fn values_mut<'m, T: 'm>(address: u64, count: u64) -> Result<&'m mut [T], Code> {
    let len = bytes_of::<T>(count)?;
    let memory = device_memory::find_writable(address, len).map_err(|_| ILLEGAL_ADDRESS)?;
    let at = memory.at(address as usize).cast::<T>();
    if !at.is_aligned() {
        return Err(ILLEGAL_ADDRESS);
    }
    // SAFETY: so many values are there, and stay until the kernel is over: a thread that frees
    // memory waits for the streams. The launcher has promised that nothing else writes there.
    Ok(unsafe { std::slice::from_raw_parts_mut(at, len / size_of::<T>()) })
}

fn sum(_threads: Threads, parameters: &[u64]) -> Result<(), Code> {
    let &[bytes, len, sum] = parameters else { return Err(ILLEGAL_ADDRESS) };
    if !bytes.is_multiple_of(16) {
        return Err(ILLEGAL_ADDRESS);
    }
    let own = if len == 0 {
        0
    } else {
        values::<u8>(bytes, len)?.iter().map(|&byte| u64::from(byte)).sum::<u64>()
    };
    let sum = &mut values_mut::<u64>(sum, 1)?[0];
    *sum = sum.wrapping_add(own);
    Ok(())
}

#[derive(Clone, Copy)]
struct Vec3 {
    x: f32,
    y: f32,
    z: f32,
}

const fn vec3(x: f32, y: f32, z: f32) -> Vec3 {
    Vec3 { x, y, z }
}

impl Vec3 {
    fn plus(self, b: Vec3) -> Vec3 {
        vec3(self.x + b.x, self.y + b.y, self.z + b.z)
    }

    fn times(self, b: f32) -> Vec3 {
        vec3(self.x * b, self.y * b, self.z * b)
    }

    fn mix(self, b: Vec3, part: f32) -> Vec3 {
        self.times(1.0 - part).plus(b.times(part))
    }

    fn dot(self, b: Vec3) -> f32 {
        self.x * b.x + self.y * b.y + self.z * b.z
    }

    fn unit(self) -> Vec3 {
        self.times(1.0 / self.dot(self).sqrt())
    }
}

const RADIUS: f32 = 0.62;
const COLOURS: [Vec3; 3] = [vec3(0.95, 0.26, 0.21), vec3(0.13, 0.59, 0.95), vec3(1.0, 0.76, 0.03)];
const FLOOR: usize = 3;

/// Returns where the balls are at that time.
fn balls(time: f32) -> [Vec3; 3] {
    [0.0, 1.0, 2.0].map(|number| {
        let (turn, bounce) = (time * 0.9 + number * 2.094_395_1, (time * 2.2 + number * 1.3).sin());
        vec3(1.75 * turn.cos(), RADIUS + 0.75 * bounce.abs(), 1.75 * turn.sin())
    })
}

/// Returns what a ray meets first, and how far away.
fn meet(from: Vec3, to: Vec3, balls: &[Vec3; 3]) -> Option<(usize, f32)> {
    let (mut met, mut distance) = (None, 60.0);
    if to.y < -0.001 {
        distance = (-from.y / to.y).min(60.0);
        met = (distance < 60.0).then_some(FLOOR);
    }
    for (number, ball) in balls.iter().enumerate() {
        let away = from.plus(ball.times(-1.0));
        let b = away.dot(to);
        let root = b * b - away.dot(away) + RADIUS * RADIUS;
        let far = if root > 0.0 { -b - root.sqrt() } else { -1.0 };
        if far > 0.001 && far < distance {
            (met, distance) = (Some(number), far);
        }
    }
    met.map(|met| (met, distance))
}

/// Returns the light that comes along a ray.
fn light_of(mut from: Vec3, mut to: Vec3, balls: &[Vec3; 3]) -> Vec3 {
    let sun = vec3(0.5, 0.8, -0.35).unit();
    let (mut seen, mut weight) = (vec3(0.0, 0.0, 0.0), 1.0);
    for _ in 0..2 {
        let sky = vec3(0.93, 0.95, 1.0).mix(vec3(0.24, 0.44, 0.78), (to.y * 1.6).clamp(0.0, 1.0));
        let Some((met, distance)) = meet(from, to, balls) else {
            return seen.plus(sky.times(weight));
        };
        let place = from.plus(to.times(distance));
        let (normal, colour) = if met == FLOOR {
            let squares = place.x.floor() as i32 + place.z.floor() as i32;
            let colour =
                if squares & 1 == 1 { vec3(0.85, 0.85, 0.82) } else { vec3(0.20, 0.23, 0.28) };
            (vec3(0.0, 1.0, 0.0), colour)
        } else {
            (place.plus(balls[met].times(-1.0)).times(1.0 / RADIUS), COLOURS[met])
        };
        let above = place.plus(normal.times(0.002));
        let lit = if meet(above, sun, balls).is_none() { normal.dot(sun).max(0.0) } else { 0.0 };
        let own = colour.times(0.3 + 0.8 * lit);
        if met == FLOOR {
            return seen.plus(own.mix(sky, (distance / 22.0).min(1.0)).times(weight));
        }
        seen = seen.plus(own.times(weight * 0.72));
        weight *= 0.28;
        from = above;
        to = to.plus(normal.times(-2.0 * to.dot(normal)));
    }
    seen
}

fn byte_of(light: f32) -> u32 {
    (light.clamp(0.0, 1.0) * 255.0 + 0.5) as u32
}

fn render(threads: Threads, parameters: &[u64]) -> Result<(), Code> {
    let &[picture, width, height, number] = parameters else { return Err(ILLEGAL_ADDRESS) };
    let picture = values_mut::<u32>(picture, width * height)?;
    let balls = balls(number as f32 / 30.0);
    for y in 0..height.min(threads.y) {
        for x in 0..width.min(threads.x) {
            let right = (2.0 * x as f32 + 1.0 - width as f32) / height as f32;
            let up = (height as f32 - 2.0 * y as f32 - 1.0) / height as f32;
            let light = light_of(vec3(0.0, 2.0, -6.5), vec3(right, up - 0.42, 2.9).unit(), &balls);
            let [red, green, blue] = [light.x, light.y, light.z].map(byte_of);
            picture[(y * width + x) as usize] = red | green << 8 | blue << 16 | 0xFF00_0000;
        }
    }
    Ok(())
}

fn filter(threads: Threads, parameters: &[u64]) -> Result<(), Code> {
    let &[from, to, width, height] = parameters else { return Err(ILLEGAL_ADDRESS) };
    let (from, to) = (values::<u32>(from, width * height)?, values_mut::<u32>(to, width * height)?);
    let (width, height) = (width as i64, height as i64);
    let pixel =
        |x: i64, y: i64| from[(y.clamp(0, height - 1) * width + x.clamp(0, width - 1)) as usize];
    let grey = |x, y| {
        let [red, green, blue, _] = pixel(x, y).to_le_bytes().map(i64::from);
        (77 * red + 150 * green + 29 * blue) >> 8
    };
    for y in 0..height.min(threads.y as i64) {
        for x in 0..width.min(threads.x as i64) {
            let weighted = |of: &dyn Fn(i64) -> i64| of(-1) + 2 * of(0) + of(1);
            let across = weighted(&|step| grey(x + 1, y + step) - grey(x - 1, y + step));
            let down = weighted(&|step| grey(x + step, y + 1) - grey(x + step, y - 1));
            let strength = (across.abs() + down.abs()).min(510) as u32;
            let [red, green, blue, _] = pixel(x, y).to_le_bytes();
            let made =
                [red, green, blue].map(|own| ((96 + u32::from(own)) * strength / 510).min(255));
            to[(y * width + x) as usize] = made[0] | made[1] << 8 | made[2] << 16 | 0xFF00_0000;
        }
    }
    Ok(())
}
