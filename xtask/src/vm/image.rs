//! The file system that the machine boots into: a shell, the C library, the programs, a script.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::inside::{SEND, Test};
use super::processor::Processor;
use crate::install::Need;

pub(crate) const CPIO: Need =
    Need { program: "cpio", package: "cpio", why: "packs the file system of an emulated machine" };

/// What programs load: the C library's parts, and what unwinds a panic's stack.
const LIBRARIES: [&str; 3] = ["libc.so.6", "libm.so.6", "libgcc_s.so.1"];

/// Begins each line of the script that says how far it is.
pub(crate) const MARK: &str = "@outlive ";

/// Prepares the machine, runs the script and switches the machine off.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /root
/bin/busybox --install -s /bin
export PATH=/bin HOME=/root TERM=dumb
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs -o mode=1777,size=75% tmpfs /dev/shm
# No file system of its own: the programs may lie below it.
chmod 1777 /tmp
mount -t devpts devpts /dev/pts
ip link set lo up
cd /tmp
echo "@outlive booted $(uname -r)"
run() {
    name=$1 limit=$2
    shift 2
    echo "@outlive begin $name"
    timeout -s KILL "$limit" "$@"
    echo "@outlive end $name $?"
}
. /script
echo "@outlive off"
poweroff -f
"#;

/// A file system that is being put together in a folder.
pub(crate) struct Image<'a> {
    processor: &'a Processor,
    folder: PathBuf,
    script: String,
}

impl<'a> Image<'a> {
    /// Begins with the shell and the C library.
    pub(crate) fn begin(
        processor: &'a Processor,
        folder: PathBuf,
        busybox: &Path,
    ) -> Result<Image<'a>, String> {
        let image = Image { processor, folder, script: String::new() };
        let wrong = |error: io::Error| format!("{}: {error}", image.folder.display());
        if image.folder.exists() {
            fs::remove_dir_all(&image.folder).map_err(wrong)?;
        }
        image.copy(busybox, Path::new("bin/busybox")).map_err(wrong)?;
        let loader = Path::new(processor.loader);
        let files = LIBRARIES.map(|name| (name, PathBuf::from("lib").join(name)));
        let name = loader.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        for (name, to) in files.into_iter().chain([(name, loader.to_path_buf())]) {
            let Some(from) = processor.library(name) else {
                return Err(format!("{} knows no {name}", processor.compiler.program));
            };
            image.copy(&from, &to).map_err(wrong)?;
        }
        image.write("init", INIT, 0o755).map_err(wrong)?;
        image.write("send", SEND, 0o644).map_err(wrong)?;
        Ok(image)
    }

    /// Adds a test, whose programs lie in the machine where cargo has put them here: that is where
    /// a test looks for a program that it starts.
    pub(crate) fn add(&mut self, test: &Test, files: &[PathBuf]) -> Result<(), String> {
        for file in files {
            let inside = self.folder.join(below(file));
            if inside.exists() {
                continue;
            }
            let wrong = |error: io::Error| format!("{}: {error}", file.display());
            fs::create_dir_all(inside.parent().unwrap_or(&inside)).map_err(wrong)?;
            let copied = self.processor.strip().arg("-o").arg(&inside).arg(file).status();
            if !copied.map_err(wrong)?.success() {
                return Err(format!("{} cannot be copied", file.display()));
            }
        }
        let [program, ..] = files else { return Err(format!("{} has no program", test.name)) };
        let mut words = vec![program.display().to_string()];
        if test.name == "send" {
            words.splice(0..0, ["sh", "/send"].map(str::to_owned));
        }
        words.extend(test.args.iter().cloned());
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let line = format!("run {} {} {}\n", quoted(&test.name), test.limit, words.join(" "));
        self.script.push_str(&line);
        Ok(())
    }

    /// Packs it as the kernel unpacks it; returns the file.
    pub(crate) fn pack(self) -> Result<PathBuf, String> {
        let packed = self.folder.with_extension("cpio");
        let wrong = |error: io::Error| format!("{}: {error}", packed.display());
        self.write("script", &self.script, 0o644).map_err(wrong)?;
        let mut pack = Command::new("sh");
        // Not compressed: an emulated machine takes longer to unpack than to read.
        pack.args(["-c", "find . | cpio --quiet -o -H newc -R 0:0"]).current_dir(&self.folder);
        let file = fs::File::create(&packed).map_err(wrong)?;
        let done = pack.stdin(Stdio::null()).stdout(file).status().map_err(wrong)?;
        fs::remove_dir_all(&self.folder).map_err(wrong)?;
        if done.success() { Ok(packed) } else { Err(format!("{} is not made", packed.display())) }
    }

    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        let to = self.folder.join(to);
        fs::create_dir_all(to.parent().unwrap_or(&to))?;
        fs::copy(from, to).map(drop)
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> io::Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))
    }
}

/// Returns an absolute path as one that can be joined to a folder.
fn below(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// Returns a word as a shell takes it for itself.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one_word() {
        let word = "it's a $word";
        let said = Command::new("sh").args(["-c", &format!("printf %s {}", quoted(word))]).output();
        assert_eq!(said.expect("sh runs").stdout, word.as_bytes());
    }

    #[test]
    fn the_script_says_what_the_console_reads() {
        assert!(INIT.matches(&format!("echo \"{MARK}")).count() >= 4);
    }
}
