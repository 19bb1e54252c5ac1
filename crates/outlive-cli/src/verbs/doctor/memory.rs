//! How much memory the domain may take: by its budget, and by the control group of this process.

use std::fs;
use std::path::Path;

use outlive::Domain;

use super::Finding;
use crate::output::bytes;

/// Looks how much of its budget the domain takes; nothing where it has none.
pub fn budget(domain: &Domain) -> Option<Finding> {
    let name = "budget";
    let told = domain.max_bytes().and_then(|most| Ok((most, domain.allocated_bytes()?)));
    let (most, taken) = match told {
        Ok((Some(most), taken)) => (most, taken),
        Ok((None, _)) => return None,
        Err(error) => {
            let advice = "give it one anew: 'outlive domain create --max-bytes SIZE', or none";
            return Some(Finding::fault(name, error.to_string(), advice));
        }
    };
    let found = format!("{} of {} taken", bytes(taken), bytes(most));
    // As little as a new queue takes to begin with.
    Some(if taken > most - most / 8 {
        let advice = "new things and growing ones get 'no room'; 'outlive domain create --max-bytes SIZE' gives more";
        Finding::note(name, found, advice)
    } else {
        Finding::good(name, found)
    })
}

/// Looks at the memory limit of this process's control group, by which shared memory counts, too.
pub fn group() -> Finding {
    let name = "memory limit";
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let found = limit(&text("/proc/self/cgroup"), |path| fs::read_to_string(path).ok());
    match found {
        None => Finding::good(name, "no control group limits this process"),
        Some(most) => Finding::note(
            name,
            format!("{} in this control group", bytes(most)),
            "shared memory counts for it: a domain that takes more gets its processes killed; give the domain \
             less, by 'outlive domain create --max-bytes'",
        ),
    }
}

/// Returns the lowest limit of the groups that `cgroup`, the text of /proc/PID/cgroup, names, and of
/// those above them.
fn limit(cgroup: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let mut limits = Vec::new();
    for line in cgroup.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, file) = if controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.max")
        } else if controllers.split(',').any(|one| one == "memory") {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            continue;
        };
        // In a container, the group is often the root of what is mounted there.
        for folder in Path::new(path.trim_start_matches('/')).ancestors() {
            let text = read(&Path::new(root).join(folder).join(file));
            limits.extend(text.and_then(|text| text.trim().parse::<u64>().ok()));
        }
    }
    // The first version has this instead of none: the largest number of whole pages.
    limits.into_iter().min().filter(|&most| most < i64::MAX as u64 / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limit_above_counts() {
        let files = |path: &Path| {
            let limit = match path.to_str()? {
                "/sys/fs/cgroup/a/b/memory.max" => "max\n",
                "/sys/fs/cgroup/a/memory.max" => "67108864\n",
                "/sys/fs/cgroup/memory/old/memory.limit_in_bytes" => "1048576\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes" => "9223372036854771712\n",
                _ => return None,
            };
            Some(limit.to_owned())
        };
        assert_eq!(limit("0::/a/b\n", files), Some(64 << 20));
        assert_eq!(limit("0::/\n", files), None);
        assert_eq!(limit("5:cpu,memory:/old\n0::/\n", files), Some(1 << 20));
        assert_eq!(limit("5:memory:/\n4:cpu:/old\n", files), None);
        assert_eq!(limit("", files), None);
    }
}
