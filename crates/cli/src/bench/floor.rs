//! The floor program: only what no log server can leave out, without a thought
//! for anything else. It takes ProduceLog frames (receive, CRC-32C, append,
//! reply) and FetchLog frames (read a megabyte, reply), and with `--fsync`
//! groups commits as the server does: a sync starts at once when none runs for
//! the file, and covers all that came meanwhile.
//!
//! It knows just enough protobuf to find bucket and records in the frames that
//! the benchmark sends, and trusts them.

use std::fs::{File, OpenOptions};
use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};

/// Options of `mainstem bench floor`.
#[derive(clap::Args, Clone, Debug)]
pub struct FloorArguments {
    /// Address to listen on; port 0 takes a free one, which is printed.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: String,
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
    to_sync: Sender<(i32, Arc<TcpStream>)>,
}

/// Runs until it is killed.
pub fn run(arguments: &FloorArguments) -> Result<()> {
    std::fs::create_dir_all(&arguments.dir)?;
    let listener = TcpListener::bind(&arguments.listen)?;
    println!("{}", listener.local_addr()?);
    let buckets: Arc<Vec<Bucket>> = Arc::new(
        (0..64).map(|id| open_bucket(&arguments.dir, id)).collect::<Result<Vec<Bucket>>>()?,
    );
    for stream in listener.incoming() {
        let stream = stream?;
        stream.set_nodelay(true)?;
        let (buckets, fsync) = (buckets.clone(), arguments.fsync);
        std::thread::spawn(move || serve(&stream, &buckets, fsync));
    }
    Ok(())
}

fn open_bucket(dir: &Path, id: usize) -> Result<Bucket> {
    let path = dir.join(format!("{id}.log"));
    let file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&path)?;
    let (to_sync, waiting) = channel();
    let synced = file.try_clone()?;
    std::thread::spawn(move || sync_loop(&synced, &waiting));
    Ok(Bucket { file, end: Mutex::new(0), to_sync })
}

/// One sync after the other; each answers all whose bytes were written before it.
fn sync_loop(file: &File, waiting: &Receiver<(i32, Arc<TcpStream>)>) {
    while let Ok(first) = waiting.recv() {
        let mut covered = vec![first];
        covered.extend(waiting.try_iter());
        if file.sync_data().is_err() {
            return;
        }
        for (request_id, stream) in covered {
            if reply_produce(&stream, request_id).is_err() {
                return;
            }
        }
    }
}

fn serve(stream: &TcpStream, buckets: &[Bucket], fsync: bool) {
    // The peer closing the connection ends the thread.
    let _ = serve_frames(stream, buckets, fsync);
}

fn serve_frames(mut stream: &TcpStream, buckets: &[Bucket], fsync: bool) -> Result<()> {
    let shared = Arc::new(stream.try_clone()?);
    let mut frame = Vec::new();
    let mut page = vec![0u8; 1 << 20];
    loop {
        let mut length = [0u8; 4];
        stream.read_exact(&mut length)?;
        frame.resize(usize::try_from(i32::from_be_bytes(length))?, 0);
        stream.read_exact(&mut frame)?;
        let api_key = i16::from_be_bytes([frame[0], frame[1]]);
        let request_id = i32::from_be_bytes([frame[4], frame[5], frame[6], frame[7]]);
        if api_key == 1014 {
            let (bucket, start, end) = find_records(&frame).context("records in the request")?;
            let records = &frame[start..end];
            let header_crc = u32::from_le_bytes(records[21..25].try_into()?);
            anyhow::ensure!(crc32c::crc32c(&records[25..]) == header_crc, "bad checksum");
            let bucket = &buckets[bucket];
            let mut position = bucket.end.lock().expect("no panic under the lock");
            bucket.file.write_all_at(records, *position)?;
            *position += records.len() as u64;
            drop(position);
            if fsync {
                bucket.to_sync.send((request_id, shared.clone()))?;
            } else {
                reply_produce(&shared, request_id)?;
            }
        } else {
            // A read of the first megabyte of bucket 0, framed as one bucket's records.
            let count = buckets[0].file.read_at(&mut page, 0)?;
            let mut header = Vec::with_capacity(16);
            header.extend_from_slice(&i32::try_from(count + 5)?.to_be_bytes());
            header.push(0);
            header.extend_from_slice(&request_id.to_be_bytes());
            write_all_vectored(stream, &header, &page[..count])?;
        }
    }
}

fn reply_produce(mut stream: &TcpStream, request_id: i32) -> Result<()> {
    // SUCCESS with one bucket entry: bucket 0 at offset 0.
    let mut reply = [0, 0, 0, 11, 0, 0, 0, 0, 0, 0x0a, 4, 0x10, 0, 0x28, 0];
    reply[5..9].copy_from_slice(&request_id.to_be_bytes());
    Ok(stream.write_all(&reply)?)
}

fn write_all_vectored(mut stream: &TcpStream, first: &[u8], second: &[u8]) -> Result<()> {
    let written = stream.write_vectored(&[IoSlice::new(first), IoSlice::new(second)])?;
    if written < first.len() {
        stream.write_all(&first[written..])?;
        stream.write_all(second)?;
    } else {
        stream.write_all(&second[written - first.len()..])?;
    }
    Ok(())
}

/// Bucket id and range of the records in a ProduceLog frame.
fn find_records(frame: &[u8]) -> Option<(usize, usize, usize)> {
    let mut position = 8;
    let mut bucket = 0;
    while position < frame.len() {
        let tag = varint(frame, &mut position)?;
        match (tag >> 3, tag & 7) {
            // Field 4 of the request: descend into the bucket's message.
            (4, 2) => {
                varint(frame, &mut position)?;
                while position < frame.len() {
                    let tag = varint(frame, &mut position)?;
                    match (tag >> 3, tag & 7) {
                        (2, 0) => bucket = usize::try_from(varint(frame, &mut position)?).ok()?,
                        (3, 2) => {
                            let length = usize::try_from(varint(frame, &mut position)?).ok()?;
                            return Some((bucket, position, position + length));
                        }
                        _ => {
                            varint(frame, &mut position)?;
                        }
                    }
                }
            }
            _ => {
                varint(frame, &mut position)?;
            }
        }
    }
    None
}

fn varint(bytes: &[u8], position: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*position)?;
        *position += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
