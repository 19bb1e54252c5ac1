//! What is run inside the machine.

use super::programs::Program;
use crate::stage::Counts;

/// A test: a command inside the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    pub(crate) name: String,
    pub(crate) program: Program,
    /// What it is given.
    pub(crate) args: Vec<String>,
    pub(crate) counts: Counts,
    /// Seconds after which it is killed.
    pub(crate) limit: u64,
    /// Whether it steps through programs, which not every processor can be made to do.
    pub(crate) is_stepped: bool,
}

/// The tests that have names.
struct Known {
    name: &'static str,
    program: Program,
    args: &'static [&'static str],
    counts: Counts,
    limit: u64,
    is_stepped: bool,
    /// Whether it is run when none is named.
    is_usual: bool,
}

const fn of_processes(name: &'static str, args: &'static [&'static str]) -> Known {
    Known {
        name,
        program: Program::Processes,
        args,
        counts: Counts::ByLines,
        limit: 30 * 60,
        is_stepped: false,
        is_usual: true,
    }
}

const KNOWN: [Known; 12] = [
    Known {
        name: "doctor",
        program: Program::Outlive,
        args: &["doctor", "--json"],
        counts: Counts::ByExit,
        limit: 60,
        is_stepped: false,
        is_usual: true,
    },
    Known {
        name: "send",
        program: Program::Outlive,
        args: &[],
        counts: Counts::ByExit,
        limit: 60,
        is_stepped: false,
        is_usual: true,
    },
    Known {
        name: "library",
        program: Program::Library,
        // Left out: races of three threads that compute, for minutes each in an emulated machine.
        args: &["--skip", "queue::tap::tests::"],
        counts: Counts::ByLines,
        limit: 20 * 60,
        is_stepped: false,
        is_usual: true,
    },
    of_processes("tokens", &["tokens::"]),
    of_processes("mutex", &["mutex::", "mutex_deaths::"]),
    of_processes("senders", &["killed_senders::"]),
    of_processes("topics", &["topics::", "topic_deaths::"]),
    of_processes("rpc", &["rpc::", "rpc_deaths::"]),
    Known {
        name: "recorder",
        program: Program::Recording,
        args: &["kills::"],
        counts: Counts::ByLines,
        limit: 20 * 60,
        is_stepped: false,
        is_usual: true,
    },
    Known {
        name: "demo",
        program: Program::Outlive,
        args: &["demo", "--seconds", "20"],
        counts: Counts::ByExit,
        limit: 10 * 60,
        is_stepped: false,
        is_usual: true,
    },
    Known {
        name: "steps",
        program: Program::Testkit,
        args: &["--brief", "--recheck", "off", "--only", "mutex-unlock"],
        counts: Counts::ByLines,
        limit: 20 * 60,
        is_stepped: true,
        // It would have the library compiled once more, as a release.
        is_usual: false,
    },
    Known { is_usual: false, limit: 4 * 60 * 60, ..of_processes("processes", &[]) },
];

/// What a message is sent and received by, in a shell.
pub(crate) const SEND: &str = "\
printf 'buy 10\\nsell 4\\n' | \"$1\" send orders || exit 1
received=$(\"$1\" recv --count 2 orders) || exit 1
echo \"$received\"
test \"$received\" = 'buy 10
sell 4'
";

/// Returns the tests of these names, or the usual ones; another name chooses of the tests with
/// processes those whose names contain it.
pub(crate) fn chosen(names: &[&str]) -> Vec<Test> {
    if names.is_empty() {
        return KNOWN.iter().filter(|known| known.is_usual).map(test).collect();
    }
    let named = |name: &&str| match KNOWN.iter().find(|known| known.name == *name) {
        Some(known) => test(known),
        None => Test {
            name: (*name).to_owned(),
            args: vec![(*name).to_owned()],
            ..test(&of_processes("", &[]))
        },
    };
    names.iter().map(named).collect()
}

/// Returns all names, for the reader who asks.
pub(crate) fn names() -> Vec<&'static str> {
    KNOWN.iter().map(|known| known.name).collect()
}

fn test(known: &Known) -> Test {
    Test {
        name: known.name.to_owned(),
        program: known.program,
        args: known.args.iter().map(|&arg| arg.to_owned()).collect(),
        counts: known.counts,
        limit: known.limit,
        is_stepped: known.is_stepped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_test_or_a_part_of_tests_names() {
        let all = chosen(&[]);
        assert!(all.iter().all(|test| test.name != "processes"));
        assert_eq!(chosen(&["doctor"]), vec![all[0].clone()]);
        let [other] = &chosen(&["pi_mutex::"])[..] else { panic!("one") };
        assert_eq!(
            (other.program, &other.args[..]),
            (Program::Processes, &["pi_mutex::".to_owned()][..])
        );
    }
}
