//! The files of a recording, one after another, and where in them a time is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outlive_mcap::{Channel, Item, Long, Message, MessageHeader, Outline, Reader};

use crate::error::Error;
use crate::recorder::EVENTS;

/// See the head of this file.
pub struct Input {
    files: Vec<(PathBuf, Outline)>,
    /// The first log time of a message that was recorded, if there is one.
    first: Option<u64>,
    /// The one that is read now.
    at: usize,
    reader: Reader,
    /// Nothing is behind the time that was sought.
    is_at_end: bool,
    /// What the user should know.
    pub notices: Vec<String>,
}

/// A message's bytes, where they are.
pub enum Data<'a> {
    Read(&'a [u8]),
    /// In the file.
    Long(Long<'a>),
}

impl Data<'_> {
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Data::Read(bytes) => bytes.len(),
            Data::Long(long) => long.len(),
        }
    }

    /// Copies them to where there is room for them.
    #[inline]
    pub fn copy_to(&self, out: &mut [u8]) -> Result<(), Error> {
        match self {
            Data::Read(bytes) => out.copy_from_slice(bytes),
            Data::Long(long) => long.read(0, out)?,
        }
        Ok(())
    }
}

/// What came next.
pub enum Next<T> {
    /// A message, and what the caller made of it.
    Message(T),
    /// A channel that was not met before, of the file with that number.
    Channel(usize, Arc<Channel>),
    /// A part of a file is damaged; what is behind it comes next.
    Fault(Error),
    End,
}

impl Input {
    /// Opens the files. They are read in the order of their first messages.
    ///
    /// # Errors
    /// Those of [`Outline::read`]; there is no file.
    pub fn open(paths: &[PathBuf]) -> Result<Input, Error> {
        let (mut files, mut notices, mut empty) = (Vec::new(), Vec::new(), None);
        for path in paths {
            let outline = match Outline::read(path) {
                // As the last one of a recorder that was killed. The others are played.
                Err(error @ outlive_mcap::Error::Cut { offset: 0 }) => {
                    let error = Error::Fault { path: path.clone(), error };
                    notices.push(error.to_string());
                    empty.get_or_insert(error);
                    continue;
                }
                read => read?,
            };
            // A recorder's own events may be older than what it has recorded.
            let has_events = outline.channels().any(|channel| channel.topic == EVENTS);
            let begin = match outline.times {
                Some((first, _)) if has_events => first_time(path).or(Some(first)),
                Some((first, _)) => Some(first),
                None => first_time(path),
            };
            files.push((begin, path.clone(), outline));
        }
        // One without messages comes last.
        files.sort_by_key(|(begin, ..)| (begin.is_none(), *begin));
        let first = files.first().and_then(|(begin, ..)| *begin);
        let files: Vec<_> = files.into_iter().map(|(_, path, outline)| (path, outline)).collect();
        let Some((path, _)) = files.first() else { return Err(empty.unwrap_or(Error::NoFile)) };
        let reader = Reader::open(path)?;
        Ok(Input { files, first, at: 0, reader, is_at_end: false, notices })
    }

    /// Returns the first and the last log time. A recorder's own events count for the last one alone.
    pub fn times(&self) -> (u64, u64) {
        let times = self.files.iter().filter_map(|(_, outline)| outline.times);
        let both = times.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)));
        let (first, last) = both.unwrap_or((0, 0));
        // Without a chunk's head nothing says the last one.
        (self.first.filter(|begin| *begin <= last).unwrap_or(first), last)
    }

    /// Returns the outline of each file.
    pub fn outlines(&self) -> impl Iterator<Item = &Outline> {
        self.files.iter().map(|(_, outline)| outline)
    }

    /// Goes on where messages of that time, or later ones, begin. Among them are older ones.
    pub fn seek(&mut self, time: u64) -> Result<(), Error> {
        let begins = self.files.iter().map(|(_, outline)| outline.begin(time)).enumerate();
        let first = begins.filter_map(|(at, offset)| Some((at, offset?))).next();
        self.is_at_end = first.is_none();
        if let Some((at, offset)) = first {
            let (path, outline) = &self.files[at];
            self.reader = Reader::open(path)?;
            // Else channels that stand in chunks before that one would not be met: it reads from the file's start, and
            // the caller passes over what is older.
            if outline.has_all_channels() {
                self.reader.seek(offset, outline);
            }
            self.at = at;
        }
        Ok(())
    }

    /// Goes to what is next. `take` is lent a message, and told the number of its file.
    pub fn next<T>(
        &mut self,
        take: impl FnOnce(usize, &Arc<Channel>, &MessageHeader, Data<'_>) -> Result<T, Error>,
    ) -> Result<Next<T>, Error> {
        use outlive_mcap::Error as File;
        use outlive_mcap::Next as Found;
        // Not two channels of one number: what comes then could be published as the other one's.
        let fault = |at: usize, error| {
            let error = Error::Fault { path: self.files[at].0.clone(), error };
            match &error {
                Error::Fault { error: File::Cut { .. } | File::Damaged { .. }, .. } => {
                    Ok(Next::Fault(error))
                }
                _ => Err(error),
            }
        };
        loop {
            if self.is_at_end {
                return Ok(Next::End);
            }
            let taken = match self.reader.next_in_place() {
                Ok(Some(Found::Item(Item::Message(Message { channel, header, data, .. })))) => {
                    take(self.at, channel, &header, Data::Read(data))
                }
                Ok(Some(Found::Long(long))) => {
                    let header = long.header;
                    take(self.at, long.channel, &header, Data::Long(long))
                }
                Ok(Some(Found::Item(Item::Channel(channel)))) => {
                    return Ok(Next::Channel(self.at, Arc::clone(channel)));
                }
                Ok(Some(Found::Item(_))) => continue,
                Ok(None) if self.at + 1 == self.files.len() => return Ok(Next::End),
                Ok(None) => {
                    self.at += 1;
                    self.reader = Reader::open(&self.files[self.at].0)?;
                    continue;
                }
                Err(error) => return fault(self.at, error),
            };
            return match taken {
                Ok(taken) => Ok(Next::Message(taken)),
                // Of reading a long one.
                Err(Error::File(error)) => fault(self.at, error),
                Err(error) => Err(error),
            };
        }
    }

    /// Returns what contradicts a channel that was met in that file's data, if its index names it otherwise.
    pub fn contradiction(&self, file: usize, channel: &Channel) -> Option<Error> {
        let (path, outline) = &self.files[file];
        let said = outline.channel(channel.id).filter(|said| *said != channel)?;
        Some(Error::OtherChannel {
            path: path.clone(),
            id: channel.id,
            said: said.topic.clone(),
            there: channel.topic.clone(),
        })
    }

    /// Returns a schema of the file that is read now.
    pub fn schema(&self, id: u16) -> Option<&outlive_mcap::Schema> {
        self.reader.schema(id).map(|schema| &**schema)
    }
}

/// Returns the time of the first message that was recorded, in the file's order.
fn first_time(path: &Path) -> Option<u64> {
    let mut reader = Reader::open(path).ok()?;
    loop {
        if let Item::Message(message) = reader.next().ok()??
            && message.channel.topic != EVENTS
        {
            return Some(message.header.log_time);
        }
    }
}
