//! The floor program: only what no log server can leave out, without a thought
//! for anything else. It takes ProduceLog frames (receive, CRC-32C, append,
//! reply) and FetchLog frames (read from the page cache, reply), and with
//! `--fsync` groups commits as the server does: a sync starts at once when none
//! runs for the file, and covers all that came meanwhile.
//!
//! It knows just enough protobuf to find bucket and records in the frames that
//! the benchmark sends, and trusts them. The offset of a fetch is a position in
//! the bucket's file, and the answer its bytes without a message around them.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};

const BUCKETS: usize = 64;
/// Appends that wait for a sync; the connection waits when there are more.
const WAITING_MAX: usize = 1024;
const PRODUCE_LOG: i16 = 1014;
const FRAME_BYTES_MAX: usize = 64 << 20;

/// Options of `mainstem bench floor`.
#[derive(clap::Args, Clone, Debug)]
pub struct FloorArguments {
    /// Directory for the bucket files.
    #[arg(long)]
    dir: PathBuf,
    /// Reply only after the sync of the bytes.
    #[arg(long)]
    fsync: bool,
}

struct Bucket {
    file: File,
    end: Mutex<u64>,
    to_sync: Option<SyncSender<(i32, Arc<TcpStream>)>>,
}

/// Prints its address, which has a free port, and runs until it is killed.
pub fn run(arguments: &FloorArguments) -> Result<()> {
    std::fs::create_dir_all(&arguments.dir)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    let open = |id| open_bucket(&arguments.dir, id, arguments.fsync);
    let buckets: Arc<Vec<Bucket>> = Arc::new((0..BUCKETS).map(open).collect::<Result<_>>()?);
    for stream in listener.incoming() {
        let stream = stream?;
        stream.set_nodelay(true)?;
        let buckets = buckets.clone();
        // The peer closing the connection ends the thread.
        std::thread::spawn(move || serve(&stream, &buckets));
    }
    Ok(())
}

fn open_bucket(dir: &Path, id: usize, fsync: bool) -> Result<Bucket> {
    let path = dir.join(format!("{id}.log"));
    let file = File::create_new(path)?;
    let (to_sync, waiting) = sync_channel(WAITING_MAX);
    let synced = file.try_clone()?;
    let to_sync = fsync.then(|| {
        std::thread::spawn(move || sync_loop(&synced, &waiting));
        to_sync
    });
    let end = Mutex::new(0);
    Ok(Bucket { file, end, to_sync })
}

/// One sync after the other; each answers all whose bytes were written before it.
fn sync_loop(file: &File, waiting: &Receiver<(i32, Arc<TcpStream>)>) -> Result<()> {
    loop {
        let mut covered = vec![waiting.recv()?];
        covered.extend(waiting.try_iter());
        file.sync_data()?;
        for (request_id, stream) in covered {
            reply_produce(&stream, request_id)?;
        }
    }
}

fn serve(mut stream: &TcpStream, buckets: &[Bucket]) -> Result<()> {
    let shared = Arc::new(stream.try_clone()?);
    let (mut message, mut page) = (Vec::new(), Vec::new());
    loop {
        let mut header = [0; 12];
        stream.read_exact(&mut header)?;
        let [l0, l1, l2, l3, k0, k1, _, _, i0, i1, i2, i3] = header;
        let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
        let request_id = i32::from_be_bytes([i0, i1, i2, i3]);
        ensure!((8..=FRAME_BYTES_MAX).contains(&length), "{length} bytes");
        message.resize(length - 8, 0);
        stream.read_exact(&mut message)?;
        if i16::from_be_bytes([k0, k1]) == PRODUCE_LOG {
            let bucket = append(&message, buckets).context("ProduceLog")?;
            match &bucket.to_sync {
                Some(to_sync) => to_sync.send((request_id, shared.clone()))?,
                None => reply_produce(&shared, request_id)?,
            }
        } else {
            let end = read(&message, buckets, &mut page).context("FetchLog")?;
            page[..4].copy_from_slice(&u32::try_from(end - 4)?.to_be_bytes());
            page[5..9].copy_from_slice(&request_id.to_be_bytes());
            stream.write_all(&page[..end])?;
        }
    }
}

/// `None` if the message is not as the benchmark writes it, or the disk fails.
fn append<'a>(message: &[u8], buckets: &'a [Bucket]) -> Option<&'a Bucket> {
    let entry = Fields(message).bytes(4)?;
    let bucket = buckets.get(usize::try_from(Fields(entry).integer(2)?).ok()?)?;
    let records = Fields(entry).bytes(3)?;
    // The header of a batch of version 0 (formats.md §1.2).
    let expected = u32::from_le_bytes(records.get(21..25)?.try_into().ok()?);
    if crc32c::crc32c(&records[25..]) != expected {
        return None;
    }
    let mut end = bucket.end.lock().ok()?;
    bucket.file.write_all_at(records, *end).ok()?;
    *end += records.len() as u64;
    Some(bucket)
}

/// Writes the bytes of all buckets of the request into `page`, behind room for
/// the header; returns their end.
fn read(message: &[u8], buckets: &[Bucket], page: &mut Vec<u8>) -> Option<usize> {
    let mut end = 9;
    for (_, _, entry) in Fields(Fields(message).bytes(3)?).filter(|field| field.0 == 4) {
        let bucket = buckets.get(usize::try_from(Fields(entry).integer(2)?).ok()?)?;
        let position = Fields(entry).integer(3)?;
        let readable = bucket.end.lock().ok()?.checked_sub(position)?;
        let start = end;
        end += usize::try_from(readable.min(Fields(entry).integer(4)?)).ok()?;
        // It only grows: nothing is cleared for what is overwritten.
        page.resize(page.len().max(end), 0);
        bucket
            .file
            .read_exact_at(&mut page[start..end], position)
            .ok()?;
    }
    Some(end)
}

fn reply_produce(mut stream: &TcpStream, request_id: i32) -> Result<()> {
    // SUCCESS with one bucket entry: bucket 0 at offset 0.
    let mut reply = [0, 0, 0, 11, 0, 0, 0, 0, 0, 0x0a, 4, 0x10, 0, 0x28, 0];
    reply[5..9].copy_from_slice(&request_id.to_be_bytes());
    Ok(stream.write_all(&reply)?)
}

/// The fields of a protobuf message of integers and delimited fields: number,
/// integer or length, delimited bytes.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let tag = self.varint()?;
        let value = self.varint()?;
        let length = if tag & 7 == 2 {
            usize::try_from(value).ok()?
        } else {
            0
        };
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some((tag >> 3, value, bytes))
    }
}

impl<'a> Fields<'a> {
    fn integer(mut self, number: u64) -> Option<u64> {
        self.find(|field| field.0 == number).map(|field| field.1)
    }

    fn bytes(mut self, number: u64) -> Option<&'a [u8]> {
        self.find(|field| field.0 == number).map(|field| field.2)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}
