//! How long bytes take from one process's GPU to another's, by which road; and how fast the bus is.
//! `cargo xtask gpu` runs it.
//!
//! Two processes, which take turns: one sends a message of some size and waits until the other says
//! that its device has it. Roads alternate in each round, always in the same order, so that they
//! meet the same machine, and the second process knows which comes next.
//!
//! Messages that stay on the device come afterwards, and there the sizes alternate in each round:
//! what is asked is whether the size matters, and behind a copy of 64 MiB by the processor every
//! step is slow, because its caches are cold.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use outlive::Domain;
use outlive::topic::{Publisher, Subscriber, Topic};
use outlive_gpu::{
    Argument, DeviceMemory, DevicePublisher, DeviceTopic, Driver, Gpu, GpuError, HostMemory,
    Kernel, Module, PinnedPublisher, PinnedSample, PinnedTopic, Stream,
};

/// 64 KiB, 1 MiB, 6 MB, 64 MiB, and how many rounds of each.
const SIZES: [(usize, usize); 4] =
    [(64 << 10, 300), (1 << 20, 200), (6_000_000, 100), (64 << 20, 30)];
/// Rounds of messages that stay on the device.
const DEVICE_ROUNDS: usize = 200;
/// Rounds that do not count: memory comes to be there, and to be registered.
const WARM_UP: usize = 20;
const SOON: Duration = Duration::from_secs(30);
/// In the environment of the second process: the domain's folder.
const SECOND: &str = "OUTLIVE_GPU_ROADS";

/// What each byte of a message on the device road is.
const BYTE: u8 = 3;

const PTX: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(
    concat!(include_str!("kernels/kernels.ptx"), "\0").as_bytes(),
) {
    Ok(text) => text,
    Err(_) => panic!("the text has no NUL"),
};

const USAGE: &str = "usage: gpu_roads [--driver LIBRARY] [--out FILE | --probe]";

/// By which road a message goes: its first byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Road {
    /// One copy each way, to and from registered memory.
    Pinned = 1,
    /// To ordinary memory, into the message, to ordinary memory, to the device: as without this
    /// crate.
    Pageable = 2,
}

/// Nanoseconds; the same in all processes.
fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Spans in nanoseconds.
#[derive(Default)]
struct Spans(Vec<u64>);

impl Spans {
    fn since(&mut self, begun: u64) {
        self.0.push(now() - begun);
    }

    fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or(0) as f64
    }

    /// `median (least to most)` in microseconds.
    fn text(&self) -> String {
        let of = |span: Option<&u64>| *span.unwrap_or(&0) as f64 / 1e3;
        format!(
            "{:.1} ({:.1} to {:.1})",
            self.median() / 1e3,
            of(self.0.iter().min()),
            of(self.0.iter().max())
        )
    }
}

struct Ends {
    gpu: Gpu,
    stream: Stream,
    frames: PinnedTopic,
    /// The third road, where the GPU's memory can be shared: a topic for each size, so that no
    /// block is exchanged for a larger one.
    images: Vec<DeviceTopic>,
    answers: Topic<[u64]>,
}

impl Ends {
    fn open(driver: &Driver, folder: &std::path::Path) -> Result<Ends, GpuError> {
        let gpu = driver.gpu(0)?;
        let domain = Domain::open_or_create_at(folder)?;
        let frames = Topic::<[u8]>::options()
            .depth(4)
            .max_bytes(1 << 30)
            .reliable(true)
            .open_or_create(&domain, "frames")?;
        let answers = Topic::open_or_create(&domain, "answers")?;
        let images = |(size, _): &(usize, usize)| {
            let name = format!("images-{size}");
            let options = DeviceTopic::<u8>::options().depth(4).reliable(true);
            let cards = options.open_or_create(&domain, &name)?;
            DeviceTopic::new(&gpu, &domain, cards)
        };
        let images = if gpu.shares() {
            SIZES.iter().map(images).collect::<Result<_, GpuError>>()?
        } else {
            Vec::new()
        };
        Ok(Ends {
            stream: Stream::new(&gpu)?,
            frames: PinnedTopic::new(&gpu, frames),
            images,
            gpu,
            answers,
        })
    }
}

/// A kernel that reads every byte of what came.
struct Reader {
    kernel: Kernel,
    sum: DeviceMemory,
}

impl Reader {
    fn new(gpu: &Gpu) -> Result<Reader, GpuError> {
        Ok(Reader {
            kernel: Module::load(gpu, PTX)?.kernel(c"outlive_sum")?,
            sum: DeviceMemory::new(gpu, 8)?,
        })
    }

    fn begin(&mut self, stream: &Stream) -> Result<(), GpuError> {
        self.sum.write(&[0; 8], stream)
    }

    /// Returns the sum of so many bytes there, once it is known.
    fn sum(&self, at: u64, len: usize, stream: &Stream) -> Result<u64, GpuError> {
        let arguments = [
            Argument::Address(at),
            Argument::U64(len as u64),
            Argument::Address(self.sum.address()),
        ];
        // As many blocks as have work for each thread, and no more than a GPU has processors: each
        // thread ends with an addition to the one sum.
        let blocks = (len / (256 * 64)).clamp(1, 128) as u32;
        // SAFETY: what the kernel declares; the caller holds the bytes, and waits for this.
        unsafe { self.kernel.launch([blocks, 1, 1], [256, 1, 1], &arguments, stream)? };
        let mut sum = [0; 8];
        self.sum.read(&mut sum, stream)?;
        Ok(u64::from_ne_bytes(sum))
    }
}

/// Takes messages to its device, by the roads that they come on, and says when the device had them.
fn second(driver: &Driver, folder: &std::path::Path) -> Result<(), GpuError> {
    let ends = Ends::open(driver, folder)?;
    let reliable = || Subscriber::options().reliable(true);
    let mut frames = ends.frames.subscriber_with(reliable())?;
    let images = ends.images.iter().map(|images| images.subscriber_with(reliable()));
    let mut images = images.collect::<Result<Vec<_>, _>>()?;
    let mut reader = Reader::new(&ends.gpu)?;
    let answers = ends.answers.publisher()?;
    answers.publish(&[0, 0])?;
    let largest = SIZES.iter().map(|(size, _)| *size).max().unwrap_or(0);
    let mut device = DeviceMemory::new(&ends.gpu, largest)?;
    let mut own = vec![0; largest];
    for (size, rounds) in SIZES {
        let host = HostMemory::new(&ends.gpu, size)?;
        for round in 0..WARM_UP + rounds {
            for _ in [Road::Pinned, Road::Pageable] {
                let frame = frames.recv_timeout(SOON)?.ok_or(outlive_gpu::GpuError::TimedOut)?;
                let received = now();
                // The key says which road it is; the bytes are the device's.
                if frame.header().key == Road::Pinned as u64 {
                    // SAFETY: as large as the largest, and there until the stream is.
                    unsafe { frame.copy_to_device(device.address(), &ends.stream)? };
                    ends.stream.synchronize()?;
                } else {
                    let own = &mut own[..frame.len()];
                    own.copy_from_slice(&frame);
                    device.write(own, &ends.stream)?;
                }
                let there = now();
                answers.publish(&[there, received])?;
                if frame.header().key == Road::Pinned as u64 {
                    answers.publish(&legs_in(&frame, &mut device, &host, &ends.stream, round)?)?;
                }
            }
        }
    }
    for _ in 0..WARM_UP + DEVICE_ROUNDS {
        for (images, (size, _)) in images.iter_mut().zip(SIZES) {
            reader.begin(&ends.stream)?;
            let image = images.recv_timeout(SOON)?.ok_or(outlive_gpu::GpuError::TimedOut)?;
            let received = now();
            let sum = reader.sum(image.address(), image.len(), &ends.stream)?;
            let read = now();
            image.release_on(&ends.stream)?;
            assert_eq!(sum, size as u64 * u64::from(BYTE), "the bytes that were published");
            answers.publish(&[read, received])?;
        }
    }
    Ok(())
}

/// How long one copy to the device takes, out of the topic and out of memory of the driver's own:
/// one after the other, in turns, once the message has come.
fn legs_in(
    frame: &PinnedSample,
    device: &mut DeviceMemory,
    host: &HostMemory,
    stream: &Stream,
    round: usize,
) -> Result<[u64; 2], GpuError> {
    let mut spans = [0; 2];
    for which in [round % 2, (round + 1) % 2] {
        let begun = now();
        if which == 0 {
            // SAFETY: as large as the largest, and there until the stream is.
            unsafe { frame.copy_to_device(device.address(), stream)? };
            stream.synchronize()?;
        } else {
            host.copy_to(device, stream)?;
        }
        spans[which] = now() - begun;
    }
    Ok(spans)
}

/// What one size came to.
struct Row {
    size: usize,
    bus_out: Spans,
    bus_in: Spans,
    leg_out: Spans,
    leg_in: Spans,
    returns: Spans,
    pinned: Spans,
    pageable: Spans,
    /// The device road: until the subscriber has it, and how long its kernel reads it then.
    handed: Spans,
    read: Spans,
}

struct First<'e> {
    ends: &'e Ends,
    publisher: PinnedPublisher,
    plain: Publisher<[u8]>,
    images: Vec<DevicePublisher>,
    answers: Subscriber<[u64]>,
    device: DeviceMemory,
}

impl First<'_> {
    fn header(road: Road) -> outlive::topic::Header {
        outlive::topic::Header { key: road as u64, ..outlive::topic::Header::default() }
    }

    /// When the other's device had it, and when it arrived.
    fn answer(&mut self) -> Result<[u64; 2], GpuError> {
        let answer = self.answers.recv_timeout(SOON)?.ok_or(outlive_gpu::GpuError::TimedOut)?;
        Ok([answer[0], answer[1]])
    }

    fn pinned(&mut self, row: &mut Row) -> Result<(), GpuError> {
        let begun = now();
        let mut loan = self.publisher.loan(row.size)?;
        loan.set_header(Self::header(Road::Pinned));
        // SAFETY: as large, and there until the answer.
        unsafe { loan.copy_from_device(self.device.address(), &self.ends.stream)? };
        self.publisher.publish_on(loan, &self.ends.stream)?;
        row.returns.since(begun);
        let [there, _] = self.answer()?;
        row.pinned.0.push(there - begun);
        let [leg, bus] = self.answer()?;
        row.leg_in.0.push(leg);
        row.bus_in.0.push(bus);
        Ok(())
    }

    /// A message that is written already: what is left is to hand it over.
    fn device(&mut self, which: usize, row: &mut Row) -> Result<(), GpuError> {
        let images = &self.images[which];
        self.device.fill(BYTE, &self.ends.stream)?;
        let mut loan = images.loan(row.size)?;
        // SAFETY: as large, and stays.
        unsafe { loan.copy_from_device(self.device.address(), &self.ends.stream)? };
        self.ends.stream.synchronize()?;
        let begun = now();
        images.publish_on(loan, &self.ends.stream)?;
        let [read, received] = self.answer()?;
        row.handed.0.push(received - begun);
        row.read.0.push(read - received);
        Ok(())
    }

    /// The way out alone, as the bus's limit is measured: until the stream is there.
    fn leg_out(&mut self, row: &mut Row) -> Result<(), GpuError> {
        let mut loan = self.publisher.loan(row.size)?;
        let begun = now();
        // SAFETY: the buffer is as large as the message, and stays until the stream is there.
        unsafe { loan.copy_from_device(self.device.address(), &self.ends.stream)? };
        self.ends.stream.synchronize()?;
        row.leg_out.since(begun);
        Ok(())
    }

    fn pageable(&mut self, row: &mut Row, own: &mut [u8]) -> Result<(), GpuError> {
        let begun = now();
        self.device.read(own, &self.ends.stream)?;
        let mut loan = self.plain.loan(own.len())?;
        loan.set_header(Self::header(Road::Pageable));
        loan.copy_from_slice(own);
        self.plain.publish(loan)?;
        let [there, _] = self.answer()?;
        row.pageable.0.push(there - begun);
        Ok(())
    }

    fn size(&mut self, size: usize, rounds: usize) -> Result<Row, GpuError> {
        let none = Spans::default;
        let new = || Row {
            size,
            bus_out: none(),
            bus_in: none(),
            leg_out: none(),
            leg_in: none(),
            returns: none(),
            pinned: none(),
            pageable: none(),
            handed: none(),
            read: none(),
        };
        let (mut own, mut host) = (vec![1; size], HostMemory::new(&self.ends.gpu, size)?);
        let mut row = new();
        for round in 0..WARM_UP + rounds {
            if round == WARM_UP {
                row = new();
            }
            let begun = now();
            host.copy_from(&self.device, &self.ends.stream)?;
            row.bus_out.since(begun);
            self.leg_out(&mut row)?;
            self.pinned(&mut row)?;
            self.pageable(&mut row, &mut own)?;
        }
        Ok(row)
    }

    /// All sizes in each round.
    fn devices(&mut self, rows: &mut [Row]) -> Result<(), GpuError> {
        for round in 0..WARM_UP + DEVICE_ROUNDS {
            for (which, row) in rows.iter_mut().enumerate().take(self.images.len()) {
                if round == WARM_UP {
                    (row.handed, row.read) = <(Spans, Spans)>::default();
                }
                self.device(which, row)?;
            }
        }
        Ok(())
    }
}

fn first(driver: &Driver, folder: &std::path::Path) -> Result<Vec<Row>, GpuError> {
    let ends = Ends::open(driver, folder)?;
    let (publisher, plain) = (ends.frames.publisher()?, ends.frames.topic().publisher()?);
    let mut answers = ends.answers.subscriber_with(Subscriber::options().history(1))?;
    // It is there.
    drop(answers.recv_timeout(SOON)?.ok_or(outlive_gpu::GpuError::TimedOut)?);
    let largest = SIZES.iter().map(|(size, _)| *size).max().unwrap_or(0);
    let device = DeviceMemory::new(&ends.gpu, largest)?;
    let images = ends.images.iter().map(DeviceTopic::publisher).collect::<Result<_, _>>()?;
    let mut first = First { ends: &ends, publisher, plain, images, answers, device };
    let rows = SIZES.iter().map(|&(size, rounds)| first.size(size, rounds));
    let mut rows = rows.collect::<Result<Vec<_>, _>>()?;
    first.devices(&mut rows)?;
    Ok(rows)
}

/// Returns the figures as a page; `judged`: whether the aims are, which are for a GPU.
fn page(name: &str, rows: &[Row], judged: bool) -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown", |(_, cpu)| cpu);
    let mut page = format!(
        "# From GPU to GPU\n\n{name}; {cpu}, Linux {}. Median (least to most) in µs, two processes, roads alternating, and on the device road the sizes.\n\n",
        read("/proc/sys/kernel/osrelease").trim()
    );
    if !judged {
        page +=
            "**The fake driver: these are copies by the processor, and say nothing of a GPU.**\n\n";
    }
    page += "| bytes | pinned, whole | pageable, whole | pageable / pinned | leg out | bus out | of it | leg in | bus in | of it | publisher's calls | device, handed over | device, read |\n";
    page += "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
    for row in rows {
        let share =
            |bus: &Spans, leg: &Spans| format!("{:.0} %", 100.0 * bus.median() / leg.median());
        let ratio = format!("{:.2}", row.pageable.median() / row.pinned.median());
        let cells = [
            row.size.to_string(),
            row.pinned.text(),
            row.pageable.text(),
            ratio,
            row.leg_out.text(),
            row.bus_out.text(),
            share(&row.bus_out, &row.leg_out),
            row.leg_in.text(),
            row.bus_in.text(),
            share(&row.bus_in, &row.leg_in),
            row.returns.text(),
            row.handed.text(),
            row.read.text(),
        ];
        let _ = writeln!(page, "| {} |", cells.join(" | "));
    }
    page += "\nLeg: one copy between device and topic, until its stream is there. Bus: one copy between the device and memory of \
             `cuMemHostAlloc`, the same way. Device: the message stays where it is; from `publish_on`, with nothing before it on the stream, until the subscriber \
             has its address, and then a kernel of the subscriber's that reads every byte. All 0: this GPU's memory cannot be shared.\n";
    if judged {
        page += "\n| aim | bytes | |\n| --- | ---: | --- |\n";
        for row in rows {
            let mut judge = |aim: &str, is_met: bool| {
                let _ = writeln!(
                    page,
                    "| {aim} | {} | {} |",
                    row.size,
                    if is_met { "met" } else { "missed" }
                );
            };
            judge("leg out at 90 % of the bus", row.bus_out.median() >= 0.9 * row.leg_out.median());
            judge("leg in at 90 % of the bus", row.bus_in.median() >= 0.9 * row.leg_in.median());
            judge("twice as fast as pageable", row.pageable.median() >= 2.0 * row.pinned.median());
        }
        let handed = |row: Option<&Row>| row.map_or(0.0, |row| row.handed.median());
        let (small, large) = (handed(rows.first()), handed(rows.last()));
        let is_met = small > 0.0 && large <= 2.0 * small;
        let _ = writeln!(
            page,
            "| handing over on the device takes as long for the largest as for the smallest | | {} |",
            if is_met { "met" } else { "missed" }
        );
    }
    page
}

fn run(library: Option<PathBuf>, out: Option<PathBuf>, is_probe: bool) -> Result<(), String> {
    let text = |error: GpuError| error.to_string();
    let driver = library.as_deref().map_or_else(Driver::open, Driver::load).map_err(text)?;
    if let Some(folder) = std::env::var_os(SECOND) {
        return second(&driver, &PathBuf::from(folder)).map_err(text);
    }
    let gpu = driver.gpu(0).map_err(text)?;
    if is_probe {
        println!(
            "{}, reads pinned: {}, writes pinned: {}",
            gpu.name(),
            gpu.reads_pinned(),
            gpu.writes_pinned()
        );
        return Ok(());
    }
    let folder = PathBuf::from(format!("/dev/shm/outlive-gpu-roads-{}", std::process::id()));
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let arguments =
        library.iter().flat_map(|library| [OsString::from("--driver"), library.clone().into()]);
    let started = Command::new(own).args(arguments).env(SECOND, &folder).spawn();
    let mut other = started.map_err(|error| error.to_string())?;
    let rows = first(&driver, &folder);
    if rows.is_err() {
        // It waits for messages that will not come.
        let _ = other.kill();
    }
    let _ = other.wait();
    std::fs::remove_dir_all(&folder).ok();
    let page = page(gpu.name(), &rows.map_err(text)?, library.is_none());
    match out {
        Some(file) => {
            std::fs::write(&file, page).map_err(|error| format!("{}: {error}", file.display()))
        }
        None => {
            print!("{page}");
            Ok(())
        }
    }
}

fn main() -> ExitCode {
    let (mut library, mut out, mut is_probe) = (None, None, false);
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--driver") => library = words.next().map(PathBuf::from),
            Some("--out") => out = words.next().map(PathBuf::from),
            Some("--probe") => is_probe = true,
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    match run(library, out, is_probe) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
