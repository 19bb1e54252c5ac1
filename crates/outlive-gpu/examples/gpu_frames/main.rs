//! Three processes and a film: one makes frames on the GPU, one finds their edges on the GPU, one,
//! which needs no GPU, shows both as pictures. In the middle the second is killed, whatever it is
//! doing, and later started again: the others go on.
//!
//! ```text
//! camera ── frames ──► filter ── edges ──► viewer ──► frame-0010.png …, film.png
//!              └───────────────────────────►┘
//! ```
//! `cargo run --profile dist -p outlive-gpu --example gpu_frames`; with `--driver LIBRARY` by another
//! driver than the machine's own.

mod film;

use std::error::Error;
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use film::Film;
use outlive::Domain;
use outlive::topic::{Header, Participants, Sample, Topic};
use outlive::wait::WaitSet;
use outlive_gpu::{
    Argument, DeviceMemory, Driver, Gpu, Kernel, Module, PinnedPublisher, PinnedTopic, Stream,
};

const WIDTH: u32 = 320;
const HEIGHT: u32 = 180;
/// Four to a pixel: red, green, blue, and 255.
const BYTES: usize = (4 * WIDTH * HEIGHT) as usize;
/// Of the camera.
const PERIOD: Duration = Duration::from_micros(33_333);
/// One frame of so many becomes a picture.
const PICTURED: u64 = 10;
/// Longer than anything here takes.
const SOON: Duration = Duration::from_secs(60);

const USAGE: &str = "usage: gpu_frames [--driver LIBRARY] [--out FOLDER] [--frames N]";

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// As every process of the film gets it.
struct Options {
    driver: Option<PathBuf>,
    out: PathBuf,
    frames: u64,
    /// What this process does, and the domain's folder: as the first one starts the others.
    role: Option<(String, PathBuf)>,
}

/// A GPU, a stream, and the kernels of kernels.cu.
struct Studio {
    gpu: Gpu,
    stream: Stream,
    module: Module,
}

impl Studio {
    fn open(options: &Options) -> Result<Studio> {
        let driver = options.driver.as_deref().map_or_else(Driver::open, Driver::load)?;
        let gpu = driver.gpu(0)?;
        let ptx = concat!(include_str!("../kernels/kernels.ptx"), "\0");
        let module = Module::load(&gpu, CStr::from_bytes_with_nul(ptx.as_bytes())?)?;
        Ok(Studio { stream: Stream::new(&gpu)?, gpu, module })
    }

    /// One thread for each pixel.
    ///
    /// # Safety
    /// As [`Kernel::launch`].
    unsafe fn launch(
        &self,
        kernel: &Kernel,
        arguments: &[Argument],
    ) -> Result<(), outlive_gpu::GpuError> {
        let blocks = [WIDTH.div_ceil(16), HEIGHT.div_ceil(16), 1];
        // SAFETY: the caller's promise.
        unsafe { kernel.launch(blocks, [16, 16, 1], arguments, &self.stream) }
    }

    /// Publishes what a kernel writes there, when it has; no thread waits. The next kernel on the
    /// stream comes after the copy.
    fn publish(
        &self,
        publisher: &PinnedPublisher,
        picture: &DeviceMemory,
        number: u64,
    ) -> Result<()> {
        let mut loan = publisher.loan(BYTES)?;
        loan.set_header(Header { frame: number, ..Header::now() });
        // SAFETY: as long as the loan; it stays until the topic is closed, which waits for the
        // copy.
        unsafe { loan.copy_from_device(picture.address(), &self.stream)? };
        Ok(publisher.publish_on(loan, &self.stream)?)
    }

    /// An empty message: there were so many frames.
    fn end(&self, publisher: &PinnedPublisher, count: u64) -> Result<()> {
        let mut loan = publisher.loan(0)?;
        loan.set_header(Header { frame: count, ..Header::now() });
        Ok(publisher.publish_on(loan, &self.stream)?)
    }
}

/// Makes a frame each period, whether or not any process subscribes.
fn camera(options: &Options, domain: &Domain) -> Result<()> {
    let studio = Studio::open(options)?;
    let render = studio.module.kernel(c"outlive_render")?;
    let topic = PinnedTopic::open_or_create(&studio.gpu, domain, "frames")?;
    let publisher = topic.publisher()?;
    let picture = DeviceMemory::new(&studio.gpu, BYTES)?;
    let begun = Instant::now();
    for number in 0..options.frames {
        let due = begun + PERIOD * number as u32;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let place = Argument::Address(picture.address());
        let arguments =
            [place, Argument::U32(WIDTH), Argument::U32(HEIGHT), Argument::U32(number as u32)];
        // SAFETY: what the kernel declares; the picture has as many pixels and stays until the
        // topic is closed.
        unsafe { studio.launch(&render, &arguments)? };
        studio.publish(&publisher, &picture, number)?;
    }
    studio.end(&publisher, options.frames)?;
    Ok(topic.close_timeout(SOON)?)
}

/// Publishes the edges of each frame: copy in, kernel, copy out, all of it on the stream while this
/// waits for the next frame.
fn filter(options: &Options, domain: &Domain) -> Result<()> {
    let studio = Studio::open(options)?;
    let kernel = studio.module.kernel(c"outlive_filter")?;
    let (frames, edges) = (
        PinnedTopic::<u8>::open_or_create(&studio.gpu, domain, "frames")?,
        PinnedTopic::<u8>::open_or_create(&studio.gpu, domain, "edges")?,
    );
    let publisher = edges.publisher()?;
    let [seen, made] =
        [DeviceMemory::new(&studio.gpu, BYTES)?, DeviceMemory::new(&studio.gpu, BYTES)?];
    let mut subscriber = frames.subscriber()?;
    loop {
        let frame = subscriber.recv_timeout(SOON)?.ok_or(outlive_gpu::GpuError::TimedOut)?;
        let number = frame.header().frame;
        if frame.is_empty() {
            studio.end(&publisher, number)?;
            edges.close_timeout(SOON)?;
            return Ok(frames.close_timeout(SOON)?);
        }
        let places = [seen.address(), made.address()].map(Argument::Address);
        // SAFETY: as large as a frame, and what the kernel declares; both stay until the topics are
        // closed.
        unsafe {
            frame.copy_to_device(seen.address(), &studio.stream)?;
            studio.launch(
                &kernel,
                &[places[0], places[1], Argument::U32(WIDTH), Argument::U32(HEIGHT)],
            )?;
        }
        studio.publish(&publisher, &made, number)?;
    }
}

/// What came of one topic.
#[derive(Default)]
struct Seen {
    count: u64,
    last: Option<(u64, Instant)>,
    /// The longest time from one frame to the next.
    still: Duration,
    /// Where the most frames in a row are missing: for how long, and the numbers before and after.
    gap: (Duration, u64, u64),
    /// As its end says.
    made: Option<u64>,
}

impl Seen {
    /// Returns a frame that is to be shown; `None`: the end.
    fn note(&mut self, sample: &Sample<[u8]>) -> Option<u64> {
        let (number, now) = (sample.header().frame, Instant::now());
        if sample.is_empty() {
            self.made = Some(number);
            return None;
        }
        if let Some((before, at)) = self.last.replace((number, now)) {
            self.still = self.still.max(now - at);
            // By frames and not by time: on a busy machine any two frames may be far apart.
            if number.saturating_sub(before) > self.gap.2 - self.gap.1 {
                self.gap = (now - at, before, number);
            }
        }
        self.count += 1;
        Some(number)
    }
}

/// Shows both topics as pictures, from where the bytes lie; needs no GPU, and does not ask whether
/// there is one.
fn viewer(options: &Options, domain: &Domain) -> Result<()> {
    let mut frames = Topic::<[u8]>::open_or_create(domain, "frames")?.subscriber()?;
    let mut edges = Topic::<[u8]>::open_or_create(domain, "edges")?.subscriber()?;
    let mut set = WaitSet::new(domain);
    set.add(&frames)?;
    set.add(&edges)?;
    let (mut seen, mut filtered) = (Seen::default(), Seen::default());
    let mut film = Film::new(&options.out, WIDTH, HEIGHT)?;
    while seen.made.is_none() || filtered.made.is_none() {
        if set.wait_timeout(SOON)?.count() == 0 {
            return Err("nothing came any more".into());
        }
        while let Some(sample) = frames.try_recv()? {
            if let Some(number) = seen.note(&sample).filter(|number| number % PICTURED == 0) {
                film.frame(number, &sample);
            }
        }
        while let Some(sample) = edges.try_recv()? {
            if let Some(number) = filtered.note(&sample).filter(|number| number % PICTURED == 0) {
                film.edges(number, &sample)?;
            }
        }
    }
    let pictures = film.finish()?;
    let made = seen.made.unwrap_or(0);
    let (gap, before, after) = filtered.gap;
    println!(
        "camera: {made} frames made; {} shown, at most {} ms apart",
        seen.count,
        seen.still.as_millis()
    );
    println!(
        "filter: edges of {} shown; none for {} ms, between frames {before} and {after}",
        filtered.count,
        gap.as_millis()
    );
    println!("viewer: {pictures} pictures and film.png in {}", options.out.display());
    if seen.count + frames.lost() != made || filtered.count == 0 || after <= before + 1 {
        return Err("this is not how it was to be".into());
    }
    Ok(())
}

/// Starts all, kills the filter after a third of the film, starts it again after half of it.
fn conductor(options: &Options) -> Result<()> {
    // Told here, before anything is started, where there is no GPU.
    drop(Studio::open(options)?);
    std::fs::create_dir_all(&options.out)?;
    let folder = PathBuf::from(format!("/dev/shm/outlive-gpu-frames-{}", std::process::id()));
    let mut cast = Cast { folder: folder.clone(), started: Vec::new() };
    let domain = Domain::open_or_create_at(&folder)?;
    let (frames, edges) = (
        Topic::<[u8]>::open_or_create(&domain, "frames")?,
        Topic::<[u8]>::open_or_create(&domain, "edges")?,
    );
    cast.start("viewer", options)?;
    cast.start("filter", options)?;
    wait_for(&frames, |seen| seen.subscribers.len() == 2)?;
    wait_for(&edges, |seen| seen.subscribers.len() == 1)?;
    let mut watched = frames.subscriber()?;
    cast.start("camera", options)?;
    let mut wait_for_frame = |number: u64| -> Result<()> {
        while watched.recv_timeout(SOON)?.ok_or("no frame came")?.header().frame < number {}
        Ok(())
    };
    wait_for_frame(options.frames / 3)?;
    let filter = cast.started.remove(1);
    eprintln!("frame {}: the filter, process {}, is killed", options.frames / 3, filter.1.id());
    kill(filter.1);
    wait_for_frame(options.frames / 2)?;
    eprintln!("frame {}: the filter is started again", options.frames / 2);
    cast.start("filter", options)?;
    cast.finish()
}

fn wait_for(topic: &Topic<[u8]>, is_so: impl Fn(&Participants) -> bool) -> Result<()> {
    let (mut presence, deadline) = (topic.watch(), outlive::Deadline::after(SOON));
    while !is_so(&presence.changed_until(deadline)?.ok_or("not all have come")?) {}
    Ok(())
}

/// The processes of the film. None of them outlives this value, nor does the folder.
struct Cast {
    folder: PathBuf,
    started: Vec<(&'static str, Child)>,
}

impl Cast {
    fn start(&mut self, role: &'static str, options: &Options) -> Result<()> {
        let mut program = Command::new(std::env::current_exe()?);
        program.args(["--as", role]).arg("--in").arg(&self.folder);
        program.arg("--out").arg(&options.out).args(["--frames", &options.frames.to_string()]);
        program.args(options.driver.iter().flat_map(|driver| [Path::new("--driver"), driver]));
        self.started.push((role, program.spawn()?));
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        for (role, child) in &mut self.started {
            let status = child.wait()?;
            if !status.success() {
                return Err(format!("the {role} has failed: {status}").into());
            }
        }
        Ok(())
    }
}

impl Drop for Cast {
    fn drop(&mut self) {
        self.started.drain(..).for_each(|(_, child)| kill(child));
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// Kills the process and waits for it: a process that has ended and is not waited for is a
/// zombie.
fn kill(mut child: Child) {
    // It has ended by itself, perhaps.
    let _ = child.kill();
    let _ = child.wait();
}

fn parse() -> Option<Options> {
    let mut options = Options { driver: None, out: "gpu-frames".into(), frames: 120, role: None };
    let (mut role, mut folder) = (None, None);
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word.to_str()? {
            "--driver" => options.driver = Some(value.into()),
            "--out" => options.out = value.into(),
            "--frames" => {
                options.frames =
                    value.to_str()?.parse().ok().filter(|frames| (30..100_000).contains(frames))?
            }
            "--as" => role = Some(value.into_string().ok()?),
            "--in" => folder = Some(value.into()),
            _ => return None,
        }
    }
    options.role = role.zip(folder);
    Some(options)
}

fn run(options: &Options) -> Result<()> {
    let Some((role, folder)) = &options.role else { return conductor(options) };
    let domain = Domain::open_or_create_at(folder)?;
    match role.as_str() {
        "camera" => camera(options, &domain),
        "filter" => filter(options, &domain),
        "viewer" => viewer(options, &domain),
        _ => Err(USAGE.into()),
    }
}

fn main() -> ExitCode {
    let Some(options) = parse() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let role = options.role.as_ref().map_or("gpu_frames", |(role, _)| role);
            eprintln!("{role}: {why}");
            ExitCode::FAILURE
        }
    }
}
