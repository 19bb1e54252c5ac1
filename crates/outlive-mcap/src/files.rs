//! Which files a recording has: one, or several with numbers, of which each header names the recording.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::read::{Item, Reader};

/// Stands between the library's name and the recording's in the header of a file that `outlive record` writes.
pub const RECORDING: &str = ", recording ";

/// Returns the path of a file that is to be made here, as [`with_ending`] does.
///
/// # Errors
/// As there; and a text if there is a folder of that name.
pub fn new_file(path: &Path) -> Result<PathBuf, String> {
    if path.is_dir() {
        return Err(is_folder(path));
    }
    with_ending(path)
}

/// Returns a path as a file of ours is called: one without an ending gets `.mcap`.
///
/// # Errors
/// A text: the name has another ending, which would be a typing error more often than a wish; or it can only be a
/// folder's.
pub fn with_ending(path: &Path) -> Result<PathBuf, String> {
    if path.file_name().is_none() || path.as_os_str().as_bytes().ends_with(b"/") {
        return Err(is_folder(path));
    }
    match path.extension() {
        // An ending and no name: the file would be hidden, and called .mcap.mcap.
        None if path.file_name().is_some_and(|name| name == ".mcap") => {
            Err(format!("{} is an ending without a name: put one in front", path.display()))
        }
        Some(ending) if ending == "mcap" => Ok(path.to_owned()),
        Some(ending) => {
            let ending = ending.to_string_lossy();
            // A number is the end of a date or of a version, and letters are another ending.
            let proposal = match ending.contains(|letter: char| letter.is_ascii_digit()) {
                true => path.with_extension(format!("{ending}.mcap")),
                false => path.with_extension("mcap"),
            };
            let (ending, proposal) = (ending.escape_debug(), proposal.display());
            Err(format!(
                "the name ends in '.{ending}', and a recording's in .mcap, as in {proposal}"
            ))
        }
        None => Ok(path.with_extension("mcap")),
    }
}

fn is_folder(path: &Path) -> String {
    format!("{} is a folder: name a file in it", path.display())
}

/// Returns the files that these names stand for, each once.
///
/// | the name | stands for |
/// | --- | --- |
/// | of a file of a recording that goes on in `NAME_1.mcap` and so on | that file and those |
/// | of any other file | that file |
/// | of no file, but there are `NAME_0.mcap`, `NAME_1.mcap` and so on | these |
/// | of no file, without an ending, but there is `NAME.mcap` | as that |
///
/// A file that has such a number, and whose header names another recording, is none of them. They come in the order
/// of their numbers.
///
/// # Errors
/// [`Error::NoRecording`] if there is neither such a file nor one with a number; [`Error::Io`] if the folder cannot be
/// read.
pub fn files_of<P: AsRef<Path>>(names: &[P]) -> Result<Vec<PathBuf>, Error> {
    let mut known = BTreeSet::new();
    let mut files = Vec::new();
    for name in names {
        for file in files_of_one(name.as_ref())? {
            // One may be named by itself, too, and in another way.
            let same = fs::canonicalize(&file).unwrap_or_else(|_| file.clone());
            if known.insert(same) {
                files.push(file);
            }
        }
    }
    Ok(files)
}

fn files_of_one(name: &Path) -> Result<Vec<PathBuf>, Error> {
    let own = name.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if name.try_exists().map_err(|error| io("look at", name, error))? {
        let mut files = vec![name.to_owned()];
        if recording_of(name).as_ref() == Some(&own) {
            let next = numbered(name, &own)?.into_iter();
            files.extend(next.filter(|file| recording_of(file).as_ref() == Some(&own)));
        }
        return Ok(files);
    }
    let whole = name.with_extension("mcap");
    if name.extension().is_none() && whole.is_file() {
        return files_of_one(&whole);
    }
    let mut files = numbered(name, &own)?;
    // What no header says may be what a tool made of such files.
    files.retain(|file| recording_of(file).is_none_or(|recording| recording == own));
    if files.is_empty() {
        return Err(Error::NoRecording { path: name.to_owned() });
    }
    Ok(files)
}

fn io(doing: &'static str, path: &Path, error: std::io::Error) -> Error {
    Error::io(doing, path, error)
}

/// Returns which recording a file belongs to, by its header.
fn recording_of(file: &Path) -> Option<String> {
    // What cannot be read is told by the program that reads it.
    let mut reader = Reader::open(file).ok()?;
    match reader.next() {
        Ok(Some(Item::Header(header))) => {
            header.library.split_once(RECORDING).map(|(_, recording)| recording.to_owned())
        }
        _ => None,
    }
}

/// Returns the files `OWN_N.mcap` beside that one, in the order of their numbers.
fn numbered(name: &Path, own: &str) -> Result<Vec<PathBuf>, Error> {
    let folder = match name.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let number = |file: &str| {
        let digits = file.strip_prefix(own)?.strip_prefix('_')?.strip_suffix(".mcap")?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u64>().ok())?
    };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| io("list", folder, error))?,
    };
    let mut files: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            let file = entry.ok()?.file_name();
            Some((number(&file.to_string_lossy())?, name.with_file_name(&file)))
        })
        .collect();
    files.sort();
    Ok(files.into_iter().map(|(_, file)| file).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::{Options, Positions, Writer};

    #[test]
    fn an_ending_is_ours_or_is_added() {
        let named = |name: &str| with_ending(Path::new(name));
        assert_eq!(named("a/s"), Ok("a/s.mcap".into()));
        assert_eq!(named("s.mcap"), Ok("s.mcap".into()));
        let proposal = |name: &str| named(name).expect_err("another ending");
        assert!(proposal("s.mcpa").ends_with("as in s.mcap"));
        assert!(proposal("run.2026.11").ends_with("as in run.2026.11.mcap"));
        for hidden in [".mcap", "a/.mcap"] {
            assert!(proposal(hidden).contains("without a name"), "{hidden}");
        }
        for folder in ["a/", "..", "/", "a/s.mcap/"] {
            assert!(proposal(folder).contains("is a folder"), "{folder}");
        }
        assert!(new_file(&std::env::temp_dir()).is_err_and(|why| why.contains("is a folder")));
    }

    #[test]
    fn a_recording_is_named_by_its_first_file() {
        let folder = std::env::temp_dir().join(format!("outlive-files-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("made");
        let write = |name: &str, recording: Option<&str>| {
            let recording = recording.map(|name| format!("{RECORDING}{name}"));
            let library = format!("some{}", recording.unwrap_or_default());
            let options = Options { library, ..Options::default() };
            let mut writer: Writer = Writer::create(folder.join(name), options).expect("made");
            writer.finish(&Positions::new()).expect("finished");
        };
        for (name, recording) in [
            ("night.mcap", Some("night")),
            ("night_1.mcap", Some("night")),
            ("night_2.mcap", Some("night")),
            ("night_10.mcap", Some("night")),
            // `-o night_3.mcap`, and files of other programs.
            ("night_3.mcap", Some("night_3")),
            ("night_4.mcap", None),
            ("night_x.mcap", Some("night")),
            ("split_0.mcap", Some("split")),
            ("split_1.mcap", None),
            ("split_2.mcap", Some("split_2")),
            ("other.mcap", None),
            ("other_1.mcap", Some("other")),
        ] {
            write(name, recording);
        }
        fs::write(folder.join("split_3.mcap"), "damaged").expect("written");
        let files = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| folder.join(name)).collect();
            let found = files_of(&names).map_err(|error| error.to_string())?;
            let of =
                |file: &PathBuf| file.file_name().expect("a name").to_string_lossy().into_owned();
            Ok::<_, String>(found.iter().map(of).collect::<Vec<_>>().join(" "))
        };
        let night = "night.mcap night_1.mcap night_2.mcap night_10.mcap";
        let split = "split_0.mcap split_1.mcap split_3.mcap";
        for (names, found) in [
            (&["night.mcap"][..], night),
            (&["night"], night),
            (&["night_1.mcap"], "night_1.mcap"),
            (&["split.mcap"], split),
            (&["split"], split),
            (&["other.mcap"], "other.mcap"),
            (&["split_1.mcap", "./split.mcap"], "split_1.mcap split_0.mcap split_3.mcap"),
        ] {
            assert_eq!(files(names).as_deref(), Ok(found), "{names:?}");
        }
        for missing in ["nothing.mcap", "no/folder.mcap"] {
            assert!(files(&[missing]).is_err_and(|why| why.contains(missing)), "{missing}");
        }
        fs::remove_dir_all(&folder).expect("removed");
    }
}
