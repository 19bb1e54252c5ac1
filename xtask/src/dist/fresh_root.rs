//! Debian's packages in a root folder that has nothing of Outlive: installed, used as users do, and
//! purged, after which no file is left.
//!
//! The root is made by mmdebstrap once and kept. packaging/debian/check.sh runs in it, in namespaces
//! of its own for mounts and processes, so nothing stays behind on the machine.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use super::{empty, files, ran, said, workshop};
use crate::count::Count;
use crate::install::{self, Need};
use crate::paths;
use crate::prefix::put;
use crate::stage::{self, Counts};

const MMDEBSTRAP: Need = Need {
    program: "mmdebstrap",
    package: "mmdebstrap",
    why: "makes a fresh root folder of Debian's, to install the packages in",
};
const RELEASE: &str = "bookworm";

/// What the packages depend on, and what compiles a program against the library.
const INCLUDED: &str = "python3,gcc,libc6-dev,pkg-config";

pub(super) fn check(packages: &Path, may_install: bool) -> io::Result<Count> {
    let name = "Debian's packages in a fresh root";
    if said(Command::new("id").arg("-u"))?.trim() != "0" {
        return Ok(stage::skip(name, "root's rights are needed to change the root folder"));
    }
    install::install(&[&MMDEBSTRAP], may_install);
    if let Some(why) = install::lacking(&[&MMDEBSTRAP]) {
        return Ok(stage::skip(name, &why));
    }
    let packed = workshop().join(format!("{RELEASE}.tar"));
    if !packed.is_file() {
        if !may_install {
            return Ok(stage::skip(name, "there is no root folder yet, and none may be made"));
        }
        println!(
            "a root folder of Debian {RELEASE}, with {INCLUDED}: mmdebstrap gets it from Debian"
        );
        // Under another name until it is whole.
        let new = workshop().join(format!("{RELEASE}.new.tar"));
        let mut make = Command::new("mmdebstrap");
        make.args(["--quiet", "--variant=minbase", &format!("--include={INCLUDED}"), RELEASE]);
        ran(make.arg(&new))?;
        fs::rename(new, &packed)?;
    }
    let root = workshop().join("root");
    empty(&root)?;
    ran(Command::new("tar").arg("-C").arg(&root).arg("-xf").arg(&packed))?;
    let inside = root.join("packages");
    fs::create_dir_all(&inside)?;
    fs::create_dir_all(root.join("dev/shm"))?;
    for package in files(packages, ".deb")? {
        let name = package.file_name().unwrap_or_default();
        if !name.to_string_lossy().contains("-dbgsym_") {
            put(&package, &inside.join(name))?;
        }
    }
    put(&paths::at(paths::DEBIAN).join("check.sh"), &inside.join("check.sh"))?;
    let mut run = Command::new("unshare");
    run.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-ec"]).arg(
        "mount -t proc proc \"$1/proc\"; mount -t tmpfs tmpfs \"$1/dev/shm\"; \
         exec chroot \"$1\" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root VERSION=\"$2\" sh /packages/check.sh",
    );
    run.arg("sh").arg(&root).arg(env!("CARGO_PKG_VERSION"));
    let count = stage::run_long(name, run, Counts::ByLines);
    fs::remove_dir_all(&root)?;
    Ok(count)
}
