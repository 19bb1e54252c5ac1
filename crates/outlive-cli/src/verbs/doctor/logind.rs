//! systemd's RemoveIPC: when a user's last session ends, logind removes that user's files in
//! /dev/shm.
//!
//! So a service that a person started and left running loses its domain's names at logout. Root and
//! system users are spared, and so are users who linger.

use std::fs;
use std::path::Path;

use super::Finding;

/// Users below this are the system's (systemd's SYSTEM_UID_MAX).
const SYSTEM_USERS: u32 = 999;

/// Looks whether it can happen to this user's domain.
pub fn look(domain: &Path) -> Vec<Finding> {
    let name = "RemoveIPC";
    if !Path::new("/run/systemd/system").is_dir() {
        return vec![Finding::good(name, "no systemd here")];
    }
    let path = std::path::absolute(domain).unwrap_or_else(|_| domain.to_path_buf());
    if !path.starts_with("/dev/shm") {
        return vec![Finding::good(name, "the domain is not below /dev/shm")];
    }
    let user = rustix::process::geteuid().as_raw();
    if user <= SYSTEM_USERS {
        return vec![Finding::good(name, "spares root and system users")];
    }
    if removes(&settings()) == Some(false) {
        return vec![Finding::good(name, "off")];
    }
    if std::env::var("USER")
        .is_ok_and(|user| Path::new("/var/lib/systemd/linger").join(user).exists())
    {
        return vec![Finding::good(name, "on, but you linger")];
    }
    vec![Finding::note(
        name,
        "on: when your last session ends, systemd removes your domain's files",
        "programs that run on keep what they have open, new ones do not find it; 'loginctl enable-linger', or \
         RemoveIPC=no in /etc/systemd/logind.conf",
    )]
}

/// Returns logind's settings, in the order in which they are read; the last one wins.
fn settings() -> Vec<String> {
    let read = |path: &Path| fs::read_to_string(path).ok();
    let mut texts: Vec<String> = ["/usr/lib/systemd/logind.conf", "/etc/systemd/logind.conf"]
        .iter()
        .filter_map(|path| read(Path::new(path)))
        .collect();
    let mut dropped_in = Vec::new();
    for folder in [
        "/usr/lib/systemd/logind.conf.d",
        "/run/systemd/logind.conf.d",
        "/etc/systemd/logind.conf.d",
    ] {
        dropped_in
            .extend(fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()));
    }
    dropped_in.retain(|path| path.extension().is_some_and(|extension| extension == "conf"));
    dropped_in.sort_by(|one, other| one.file_name().cmp(&other.file_name()));
    texts.extend(dropped_in.iter().filter_map(|path| read(path)));
    texts
}

/// Returns what the settings say, if they do.
fn removes(settings: &[String]) -> Option<bool> {
    let lines = settings.iter().flat_map(|text| text.lines());
    lines
        .filter_map(|line| line.trim().strip_prefix("RemoveIPC"))
        .filter_map(|rest| rest.trim_start().strip_prefix('='))
        .filter_map(|value| match value.trim() {
            "no" | "false" | "0" | "off" => Some(false),
            "yes" | "true" | "1" | "on" => Some(true),
            _ => None,
        })
        .next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_setting_wins_and_comments_do_not_count() {
        let texts =
            |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(removes(&texts(&["[Login]\n#RemoveIPC=no\n"])), None);
        assert_eq!(removes(&texts(&["[Login]\nRemoveIPC=no\n"])), Some(false));
        assert_eq!(removes(&texts(&["RemoveIPC=no", "RemoveIPC = yes\n"])), Some(true));
        assert_eq!(removes(&texts(&["RemoveIPC=yes\nRemoveIPC=off"])), Some(false));
    }
}
