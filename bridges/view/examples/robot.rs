//! A robot to look at: `outlive view` shows its camera, its LiDAR, a laser scan, where it is, its battery and
//! its log.
//!
//! `robot DOMAIN [FOLDER]`: with a folder, the camera has its pictures (`*.jpg`) and the LiDAR its scans
//! (`*.f32x4.bin`, `*.f32x5.bin`: as many numbers a point, x, y, z and intensity first). Without one both are made
//! up. It goes on until it is ended.

use std::error::Error;
use std::f32::consts::TAU;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, thread};

use outlive::describe::{InlineString, Tail, WithTail};
use outlive::rpc::Service;
use outlive::state::State;
use outlive::topic::{Outgoing, Topic};
use outlive::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use outlive::{Domain, Payload};

/// A picture, whose fields are named as ROS names them.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[repr(C)]
struct Picture {
    width: u32,
    height: u32,
    step: u32,
    encoding: InlineString<12>,
    data: Tail<u8>,
}

/// A point of the LiDAR.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[repr(C)]
struct Point {
    x: f32,
    y: f32,
    z: f32,
    intensity: f32,
}

/// One turn of a laser.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[repr(C)]
struct Scan {
    angle_min: f32,
    angle_max: f32,
    frame_id: InlineString<12>,
    ranges: Tail<f32>,
}

/// Where a frame of reference is in another.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[repr(C)]
struct Transform {
    translation: [f64; 3],
    rotation: [f64; 4],
    parent_frame_id: InlineString<12>,
    child_frame_id: InlineString<12>,
}

/// A battery: what Foxglove plots without knowing it.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[repr(C)]
struct Battery {
    volts: f32,
    amperes: f32,
    cells: [f32; 4],
}

/// A line of the log.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[repr(C)]
struct Line {
    level: u32,
    name: InlineString<12>,
    message: InlineString<60>,
}

/// How often everything is published.
const PERIOD: Duration = Duration::from_millis(100);

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let (domain, folder) = match &args[..] {
        [domain] => (domain, None),
        [domain, folder] => (domain, Some(Path::new(folder))),
        _ => return Err("usage: robot DOMAIN [FOLDER]".into()),
    };
    let domain = Domain::open_or_create_at(domain)?;
    let _node = domain.node("robot").register()?;
    let speed = State::<f64>::options().described().initial(&1.5);
    let speed = speed.open_or_create(&domain, "robot.max_speed")?;
    serve(&domain)?;

    let jpeg = Topic::<[u8]>::options().depth(4).attribute("view.as", "compressed-image");
    let jpeg = jpeg.attribute("view.frame", "camera").open_or_create(&domain, "camera.jpeg")?;
    let jpeg = jpeg.publisher()?;
    let pixels = Topic::<WithTail<Picture>>::options().depth(4).described();
    let pixels = pixels.attribute("view.frame", "camera").open_or_create(&domain, "camera.raw")?;
    let pixels = pixels.publisher()?;
    let lidar = Topic::<[Point]>::options().depth(4).described().attribute("view.frame", "robot");
    let lidar = lidar.open_or_create(&domain, "lidar")?.publisher()?;
    let scans = Topic::<WithTail<Scan>>::options().described().open_or_create(&domain, "scan")?;
    let scans = scans.publisher()?;
    let places = Topic::<Transform>::options().described().open_or_create(&domain, "tf")?;
    let places = places.publisher()?;
    let battery = Topic::<Battery>::options().described().open_or_create(&domain, "battery")?;
    let battery = battery.publisher()?;
    let log = Topic::<Line>::options().described().open_or_create(&domain, "log")?.publisher()?;

    let text = |text: &str| InlineString::new(text).ok_or("a text is too long");
    let (pictures, clouds) =
        (files(folder, &[".jpg"])?, files(folder, &[".f32x4.bin", ".f32x5.bin"])?);
    let clouds = clouds.iter().map(|path| cloud(path)).collect::<Result<Vec<_>, _>>()?;
    let frame_id = text("robot")?;
    for turn in 0_usize.. {
        let angle = turn as f32 * 0.05;
        if let Some(path) = pictures.get(turn / 10 % pictures.len().max(1)) {
            jpeg.publish(Outgoing::new(&*fs::read(path)?))?;
        }
        let (width, height) = (320, 240);
        let picture =
            Picture { width, height, step: width * 3, encoding: text("rgb8")?, data: Tail::new() };
        pixels.publish_with_tail(&picture, &drawn(width as usize, height as usize, turn))?;
        match clouds.get(turn / 10 % clouds.len().max(1)) {
            Some(cloud) => lidar.publish(&**cloud)?,
            None => lidar.publish(&*made_up(angle))?,
        };
        let scan = Scan { angle_min: 0.0, angle_max: TAU, frame_id, ranges: Tail::new() };
        let range = |at: u16| 4.0 + (f32::from(at) * TAU / 90.0 + angle).sin();
        scans.publish_with_tail(&scan, &(0..360).map(range).collect::<Vec<f32>>())?;
        let half = f64::from(angle) / 2.0;
        places.publish(&Transform {
            translation: [f64::from(angle).cos() * 3.0, f64::from(angle).sin() * 3.0, 0.0],
            rotation: [0.0, 0.0, half.sin(), half.cos()],
            parent_frame_id: text("world")?,
            child_frame_id: text("robot")?,
        })?;
        let volts = 24.0 + angle.sin();
        let amperes = speed.get()? as f32 * 2.0;
        battery.publish(&Battery { volts, amperes, cells: [volts / 4.0; 4] })?;
        if turn.is_multiple_of(10) {
            let message = InlineString::new(&format!("turn {turn}")).ok_or("too long")?;
            log.publish(&Line { level: 20, name: text("robot")?, message })?;
        }
        thread::sleep(PERIOD);
    }
    Ok(())
}

/// A service that adds one, to be called from the panel for services.
fn serve(domain: &Domain) -> Result<(), outlive::Error> {
    let service = Service::<u32, u32>::options().described();
    let mut server = service.open_or_create(domain, "robot.add_one")?.server()?;
    thread::spawn(move || {
        while let Ok(request) = server.next() {
            let answer = request.value().wrapping_add(1);
            // The client may have gone.
            let _ = request.reply(&answer);
        }
    });
    Ok(())
}

/// Returns the folder's files whose names end so, sorted.
fn files(folder: Option<&Path>, ends: &[&str]) -> Result<Vec<PathBuf>, std::io::Error> {
    let Some(folder) = folder else { return Ok(Vec::new()) };
    let mut files = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<PathBuf>, std::io::Error>>()?;
    files.retain(|path| ends.iter().any(|end| path.to_string_lossy().ends_with(end)));
    files.sort();
    Ok(files)
}

/// Reads a scan: of each point the first four numbers.
fn cloud(path: &Path) -> Result<Vec<Point>, std::io::Error> {
    let each = if path.to_string_lossy().ends_with(".f32x5.bin") { 20 } else { 16 };
    let bytes = fs::read(path)?;
    let point = |bytes: &[u8]| {
        let number = |at: usize| {
            let four = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
            f32::from_le_bytes(four)
        };
        Point { x: number(0), y: number(4), z: number(8), intensity: number(12) }
    };
    Ok(bytes.chunks_exact(each).map(point).collect())
}

/// A wavy disc.
fn made_up(angle: f32) -> Vec<Point> {
    let point = |at: u16| {
        let (turn, out) = (f32::from(at % 360) * TAU / 360.0, f32::from(at / 360));
        let z = (out + angle).sin() / 4.0;
        Point { x: out * turn.cos(), y: out * turn.sin(), z, intensity: z }
    };
    (0..360 * 20).map(point).collect()
}

/// A picture with a bar that moves.
fn drawn(width: usize, height: usize, turn: usize) -> Vec<u8> {
    let bar = turn * 4 % width;
    let pixel = |at: usize| match at % width {
        x if x.abs_diff(bar) < 8 => [255, 255, 0],
        x => [(x * 255 / width) as u8, (at / width * 255 / height) as u8, 96],
    };
    (0..width * height).flat_map(pixel).collect()
}
