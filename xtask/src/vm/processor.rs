//! The processors on which tests are run: what builds for them, and what qemu is told.

use std::path::PathBuf;
use std::process::Command;

use super::packages::NEWEST;
use crate::install::Need;

/// A processor; as a target of the compiler, as Debian calls it, and as a machine of qemu's.
pub(crate) struct Processor {
    /// As `uname -m` says it.
    pub(crate) name: &'static str,
    pub(crate) debian: &'static str,
    pub(crate) triple: &'static str,
    pub(crate) qemu: Need,
    machine: &'static [&'static str],
    /// What most tests run on.
    pub(crate) cpu: &'static str,
    /// What can be stepped through instruction by instruction.
    pub(crate) stepped_cpu: &'static str,
    pub(crate) console: &'static str,
    /// The C compiler: it links, and knows where the C library is.
    pub(crate) compiler: Need,
    strip: &'static str,
    /// Where programs look for what loads their libraries.
    pub(crate) loader: &'static str,
    /// The series of kernels, the oldest first.
    pub(crate) kernels: &'static [&'static str],
}

pub(crate) const PROCESSORS: [Processor; 2] = [
    Processor {
        name: "x86_64",
        debian: "amd64",
        triple: "x86_64-unknown-linux-gnu",
        qemu: Need {
            program: "qemu-system-x86_64",
            package: "qemu-system-x86",
            why: "runs tests on other kernels, in an emulated machine",
        },
        machine: &[],
        cpu: "max",
        stepped_cpu: "max",
        console: "ttyS0",
        compiler: Need {
            program: "gcc",
            package: "gcc libc6-dev",
            why: "links the tests for an emulated machine",
        },
        strip: "strip",
        loader: "lib64/ld-linux-x86-64.so.2",
        kernels: &["5.10", "6.1", "6.12", NEWEST],
    },
    Processor {
        name: "aarch64",
        debian: "arm64",
        triple: "aarch64-unknown-linux-gnu",
        qemu: Need {
            program: "qemu-system-aarch64",
            package: "qemu-system-arm",
            why: "runs tests on an emulated aarch64 machine",
        },
        machine: &["-M", "virt"],
        cpu: "cortex-a72",
        // A loop of load-exclusive and store-exclusive never ends under single steps: this processor
        // has atomic instructions (LSE), which the compiled code uses where they are.
        stepped_cpu: "cortex-a76",
        console: "ttyAMA0",
        compiler: Need {
            program: "aarch64-linux-gnu-gcc",
            package: "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
            why: "links the tests for an emulated aarch64 machine",
        },
        strip: "aarch64-linux-gnu-strip",
        loader: "lib/ld-linux-aarch64.so.1",
        kernels: &["6.1", "6.12", NEWEST],
    },
];

impl Processor {
    /// Returns whether this machine has that processor.
    pub(crate) fn is_native(&self) -> bool {
        self.name == std::env::consts::ARCH
    }

    /// Returns the emulated machine. By interpretation, always: `/dev/kvm` may be there and of no
    /// use, and qemu hangs then.
    pub(crate) fn emulator(&self, cpu: &str) -> Command {
        let mut command = Command::new(self.qemu.program);
        command.args(self.machine).args(["-accel", "tcg,thread=multi", "-cpu", cpu]);
        command.args(["-smp", "2", "-m", "2048", "-nographic", "-no-reboot", "-nic", "none"]);
        command
    }

    /// Returns the file of the C library's that bears this name.
    pub(crate) fn library(&self, name: &str) -> Option<PathBuf> {
        let mut ask = Command::new(self.compiler.program);
        let said = ask.arg(format!("-print-file-name={name}")).output().ok()?;
        let path = PathBuf::from(String::from_utf8_lossy(&said.stdout).trim());
        // It says the bare name of what it does not find.
        path.is_absolute().then_some(path)
    }

    /// Returns the command that copies a program without what only debuggers read.
    pub(crate) fn strip(&self) -> Command {
        let mut command = Command::new(self.strip);
        command.arg("--strip-debug");
        command
    }
}
