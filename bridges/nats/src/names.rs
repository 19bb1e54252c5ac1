//! Names that the server takes: streams, consumers, subjects. The server's client would put some of
//! these into requests as they are, so what could be read as another request is refused here.

use outlive_program::exit::{Code, Failure};

/// The longest name: the server makes a folder of it.
const LONGEST: usize = 255;

/// Checks the name of a stream or a consumer.
pub fn check(what: &str, name: &str) -> Result<(), Failure> {
    let bad = |c: char| c.is_whitespace() || c.is_control() || ".*>/\\".contains(c);
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > LONGEST {
        "it is longer than 255 bytes"
    } else if name.contains(bad) {
        "it has a space, a control character or one of . * > / \\ in it"
    } else {
        return Ok(());
    };
    Err(refused(what, name, why))
}

/// Checks a subject; wildcards are allowed in one that selects messages.
pub fn check_subject(subject: &str, wildcards: bool) -> Result<(), Failure> {
    let what = "a subject";
    if subject.is_empty() || subject.len() > LONGEST {
        return Err(refused(what, subject, "it is empty or longer than 255 bytes"));
    }
    let tokens: Vec<&str> = subject.split('.').collect();
    for (at, token) in tokens.iter().enumerate() {
        let why = if token.is_empty() {
            "a part of it is empty"
        } else if token.contains(|c: char| c.is_whitespace() || c.is_control()) {
            "it has a space or a control character in it"
        } else if !token.contains(['*', '>']) {
            continue;
        } else if !wildcards {
            "messages are published to one subject, without * and >"
        } else if *token == "*" || *token == ">" && at + 1 == tokens.len() {
            continue;
        } else {
            "* stands for a whole part, and > for all parts at the end"
        };
        return Err(refused(what, subject, why));
    }
    if subject.starts_with('$') || subject.starts_with("_INBOX") {
        return Err(refused(what, subject, "it is one of the server's own"));
    }
    Ok(())
}

fn refused(what: &str, name: &str, why: &str) -> Failure {
    let shown: String = name.chars().take(80).collect();
    Failure::new(Code::BadName, format!("'{}' cannot be {what}: {why}", shown.escape_debug()))
}

/// Returns the subject for a queue's messages in a stream that takes these subjects: the only one,
/// or the queue's name in place of the wildcard at its end.
pub fn subject_for(queue: &str, subjects: &[String]) -> Result<String, Failure> {
    let [only] = subjects else {
        let text = format!("the stream takes {} subjects; choose one by --subject", subjects.len());
        return Err(Failure::new(Code::Usage, text));
    };
    let subject = match only.strip_suffix(['*', '>']) {
        Some(front) => format!("{front}{queue}"),
        None => only.clone(),
    };
    let fits = !only.ends_with('*') || !queue.contains('.');
    if fits && check_subject(&subject, false).is_ok() {
        return Ok(subject);
    }
    let text = format!("the stream's subject is '{only}'; choose one of its subjects by --subject");
    Err(Failure::new(Code::Usage, text))
}

/// Returns the name of a consumer of a bridge's own: by this machine's name and the queue's.
pub fn consumer_for(machine: &str, queue: &str) -> String {
    let wanted = format!("outlive-{machine}-{queue}");
    let is_fine = |c: &char| c.is_ascii_alphanumeric() || *c == '-' || *c == '_';
    if wanted.len() <= 100 && wanted.chars().all(|c| is_fine(&c)) {
        return wanted;
    }
    // Two queues must not share one because of a letter that was replaced.
    let hash = wanted.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let kept: String = wanted.chars().take(80).map(|c| if is_fine(&c) { c } else { '_' }).collect();
    format!("{kept}-{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_another_request_is_no_name() {
        for name in
            ["", "a b", "a.b", "*", ">", "a/b", "..", "a\r\nPUB x 0", "\0", &"x".repeat(256)]
        {
            assert!(check("a stream", name).is_err(), "{name:?}");
        }
        for name in ["orders", "Größe", "a-b_c"] {
            assert!(check("a stream", name).is_ok(), "{name}");
        }
        for subject in ["", ".", "a..b", "a.", "a b", "a\r\nb", "a.*", "$JS.API.X", "_INBOX.x"] {
            assert!(check_subject(subject, false).is_err(), "{subject:?}");
        }
        for subject in ["a.*x", ">.a", "a.>b"] {
            assert!(check_subject(subject, true).is_err(), "{subject:?}");
        }
        assert!(check_subject("a.*.b.>", true).is_ok());
        assert!(check_subject("a.b", false).is_ok());
    }

    #[test]
    fn a_subject_is_found_only_where_there_is_one() {
        let subject = |queue: &str, subjects: &[&str]| {
            subject_for(queue, &subjects.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()).ok()
        };
        assert_eq!(subject("q", &["orders"]).as_deref(), Some("orders"));
        assert_eq!(subject("q", &["orders.>"]).as_deref(), Some("orders.q"));
        assert_eq!(subject("q.r", &["orders.>"]).as_deref(), Some("orders.q.r"));
        assert_eq!(subject("q.r", &["orders.*"]), None);
        assert_eq!(subject("q r", &["orders.*"]), None);
        assert_eq!(subject("q", &["a.*.b"]), None);
        assert_eq!(subject("q", &["a", "b"]), None);
        assert_eq!(subject("q", &[]), None);
    }

    #[test]
    fn consumers_of_two_queues_have_two_names() {
        let names = ["a b", "a_b", "a.b", "a/b", &"x".repeat(150), &"x".repeat(151)];
        let mut consumers: Vec<String> = names.map(|name| consumer_for("host", name)).into();
        consumers
            .iter()
            .for_each(|name| check("a consumer", name).expect("one that the server takes"));
        consumers.sort();
        consumers.dedup();
        assert_eq!(consumers.len(), names.len());
    }
}
