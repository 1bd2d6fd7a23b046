//! Compression of the buffers of an Arrow body (formats.md §1.6): each begins
//! with its uncompressed length as an i64, or −1 where raw bytes follow.

use std::io::{Read, Write};

use arrow_buffer::{Buffer, MutableBuffer};
use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use mainstem_types::ArrowCompression;

use crate::arrow_message::BodyCodec;
use crate::{FormatError, Result};

/// How the bodies of new batches are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4 frames.
    Lz4Frame,
    /// ZSTD with a level of 1..=22.
    Zstd(i32),
}

impl Compression {
    pub(crate) fn codec(self) -> Option<BodyCodec> {
        match self {
            Self::None => None,
            Self::Lz4Frame => Some(BodyCodec::Lz4Frame),
            Self::Zstd(_) => Some(BodyCodec::Zstd),
        }
    }
}

impl From<ArrowCompression> for Compression {
    fn from(option: ArrowCompression) -> Self {
        match option {
            ArrowCompression::None => Self::None,
            ArrowCompression::Lz4Frame => Self::Lz4Frame,
            ArrowCompression::Zstd { level } => Self::Zstd(level),
        }
    }
}

const PREFIX_BYTES: usize = 8;
/// In place of a length: the bytes are not compressed.
const RAW: i64 = -1;

/// Compresses buffers of one body after the other.
pub(crate) struct BufferCompressor {
    compression: Compression,
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl BufferCompressor {
    pub(crate) fn new(compression: Compression) -> Result<Self> {
        let zstd = match compression {
            Compression::Zstd(level) if !(1..=22).contains(&level) => {
                return Err(FormatError::invalid(format!("ZSTD level {level}")));
            }
            Compression::Zstd(level) => {
                Some(zstd::bulk::Compressor::new(level).map_err(codec_failure)?)
            }
            Compression::None | Compression::Lz4Frame => None,
        };
        Ok(Self { compression, zstd })
    }

    /// Appends a buffer with its prefix, raw where compression does not pay.
    /// Without compression, appends it as it is.
    pub(crate) fn append(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Result<()> {
        if self.compression == Compression::None {
            out.extend_from_slice(raw);
            return Ok(());
        }
        let start = out.len();
        out.extend((raw.len() as i64).to_le_bytes());
        // An empty buffer is a prefix of zero and nothing else.
        if raw.is_empty() {
            return Ok(());
        }
        match &mut self.zstd {
            Some(zstd) => {
                let bound = zstd::zstd_safe::compress_bound(raw.len());
                let compressed = out.len();
                out.resize(compressed + bound, 0);
                let length = zstd
                    .compress_to_buffer(raw, &mut out[compressed..])
                    .map_err(codec_failure)?;
                out.truncate(compressed + length);
            }
            None => {
                // What Java reads and writes; it refuses linked blocks.
                let info = FrameInfo::new()
                    .block_mode(BlockMode::Independent)
                    .block_size(BlockSize::Max64KB);
                let mut encoder = FrameEncoder::with_frame_info(info, &mut *out);
                encoder.write_all(raw).map_err(codec_failure)?;
                encoder.finish().map_err(codec_failure)?;
            }
        }
        if out.len() - start - PREFIX_BYTES >= raw.len() {
            out.truncate(start);
            out.extend(RAW.to_le_bytes());
            out.extend_from_slice(raw);
        }
        Ok(())
    }
}

fn codec_failure(error: impl std::fmt::Display) -> FormatError {
    FormatError::invalid(format!("compressing an Arrow buffer: {error}"))
}

/// Most that a byte of ZSTD or LZ4 can become: a block of 128 KiB in 4 bytes,
/// or a run of 255 per byte. A length beyond it is a lie, and not allocated.
const fn swell_max(codec: BodyCodec) -> usize {
    match codec {
        BodyCodec::Zstd => 32 * 1024,
        BodyCodec::Lz4Frame => 256,
    }
}

/// Decompresses the buffers of one body, up to a total size.
pub(crate) struct BufferDecompressor {
    codec: BodyCodec,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    limit_bytes: usize,
    bytes_left: usize,
}

impl BufferDecompressor {
    pub(crate) fn new(codec: BodyCodec, limit_bytes: usize) -> Result<Self> {
        let zstd = match codec {
            BodyCodec::Zstd => Some(zstd::bulk::Decompressor::new().map_err(codec_failure)?),
            BodyCodec::Lz4Frame => None,
        };
        Ok(Self {
            codec,
            zstd,
            limit_bytes,
            bytes_left: limit_bytes,
        })
    }

    /// The contents of a stored buffer; shared with it where they are raw.
    pub(crate) fn decompress(&mut self, stored: Buffer) -> Result<Buffer> {
        // Writers other than Java's leave empty buffers without a prefix.
        if stored.is_empty() {
            return Ok(stored);
        }
        let Some((prefix, compressed)) = stored.split_first_chunk::<PREFIX_BYTES>() else {
            return Err(FormatError::invalid(format!(
                "compressed Arrow buffer of {} bytes",
                stored.len()
            )));
        };
        let length = i64::from_le_bytes(*prefix);
        if length == RAW {
            return Ok(stored.slice(PREFIX_BYTES));
        }
        let possible = compressed.len().saturating_mul(swell_max(self.codec));
        let length = match usize::try_from(length) {
            Ok(length) if length <= possible => length,
            _ => {
                return Err(FormatError::invalid(format!(
                    "Arrow buffer of {length} bytes in {} compressed ones",
                    compressed.len()
                )));
            }
        };
        let Some(bytes_left) = self.bytes_left.checked_sub(length) else {
            return Err(FormatError::LimitExceeded {
                what: "decompressed bytes of a batch",
                actual: (self.limit_bytes - self.bytes_left).saturating_add(length) as u64,
                limit: self.limit_bytes as u64,
            });
        };
        self.bytes_left = bytes_left;
        if length == 0 {
            return Ok(Buffer::from(MutableBuffer::new(0)));
        }
        let mut contents = MutableBuffer::from_len_zeroed(length);
        let actual = match &mut self.zstd {
            Some(zstd) => zstd.decompress_to_buffer(compressed, contents.as_slice_mut()),
            None => decompress_lz4(compressed, contents.as_slice_mut()),
        };
        match actual {
            Ok(actual) if actual == length => Ok(contents.into()),
            Ok(actual) => Err(FormatError::invalid(format!(
                "Arrow buffer of {actual} bytes declares {length}"
            ))),
            Err(error) => Err(FormatError::invalid(format!(
                "decompressing an Arrow buffer: {error}"
            ))),
        }
    }
}

/// Fills `contents` from a frame; returns how many bytes the frame holds, one
/// more than there is room for if it goes on.
fn decompress_lz4(compressed: &[u8], contents: &mut [u8]) -> std::io::Result<usize> {
    let mut decoder = FrameDecoder::new(compressed);
    let mut filled = 0;
    while filled < contents.len() {
        match decoder.read(&mut contents[filled..])? {
            0 => return Ok(filled),
            read => filled += read,
        }
    }
    Ok(filled + decoder.read(&mut [0])?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: usize = 1 << 20;

    fn compress(compression: Compression, raw: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        BufferCompressor::new(compression)
            .unwrap()
            .append(raw, &mut out)
            .unwrap();
        out
    }

    fn decompress(codec: BodyCodec, stored: &[u8]) -> Result<Buffer> {
        BufferDecompressor::new(codec, LIMIT)
            .unwrap()
            .decompress(Buffer::from(stored))
    }

    #[test]
    fn buffers_that_do_not_shrink_stay_raw() {
        for compression in [Compression::Lz4Frame, Compression::Zstd(3)] {
            let stored = compress(compression, &[1]);
            assert_eq!(stored, [255, 255, 255, 255, 255, 255, 255, 255, 1]);
            assert_eq!(compress(compression, &[]), [0; 8]);
        }
    }

    #[test]
    fn lz4_blocks_are_independent_and_of_64_kib() {
        let stored = compress(Compression::Lz4Frame, &[7; 200_000]);
        let frame = &stored[8..];
        assert_eq!(frame[..4], 0x184D_2204_u32.to_le_bytes());
        // Version 01, independent blocks, nothing else; block size code 4.
        assert_eq!((frame[4], frame[5]), (0b0110_0000, 4 << 4));
    }

    #[test]
    fn an_empty_buffer_needs_no_prefix() {
        for codec in [BodyCodec::Lz4Frame, BodyCodec::Zstd] {
            assert_eq!(decompress(codec, &[]).unwrap().len(), 0);
            assert_eq!(decompress(codec, &[0; 8]).unwrap().len(), 0);
        }
    }

    #[test]
    fn wrong_lengths_are_refused() {
        let raw = vec![3; 10_000];
        for compression in [Compression::Lz4Frame, Compression::Zstd(3)] {
            let codec = compression.codec().unwrap();
            let stored = compress(compression, &raw);
            assert_eq!(decompress(codec, &stored).unwrap().as_slice(), raw);
            for length in [9_999, 10_001, 0, -2, i64::MAX] {
                let mut lying = stored.clone();
                lying[..8].copy_from_slice(&i64::to_le_bytes(length));
                let result = decompress(codec, &lying);
                // A buffer that declares nothing is empty, whatever follows.
                assert_eq!(result.is_ok(), length == 0, "{codec:?} {length}");
            }
        }
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        for compression in [Compression::Lz4Frame, Compression::Zstd(3)] {
            let stored = compress(compression, &vec![0; LIMIT + 1]);
            let error = decompress(compression.codec().unwrap(), &stored).unwrap_err();
            assert!(
                matches!(error, FormatError::LimitExceeded { .. }),
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn every_buffer_comes_back(raw: Vec<u8>, repeat in 1_usize..40) {
            let raw = raw.repeat(repeat);
            for compression in [Compression::Lz4Frame, Compression::Zstd(1)] {
                let stored = compress(compression, &raw);
                let back = decompress(compression.codec().unwrap(), &stored).unwrap();
                prop_assert_eq!(back.as_slice(), &raw[..]);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(length in -2_i64..5000, mut stored: Vec<u8>, at: prop::sample::Index) {
            for compression in [Compression::Lz4Frame, Compression::Zstd(1)] {
                let codec = compression.codec().unwrap();
                let _ = decompress(codec, &stored);
                let mut damaged = compress(compression, &stored.repeat(9));
                let at = at.index(damaged.len());
                damaged[at] ^= 0x55;
                let _ = decompress(codec, &damaged);
            }
            stored.splice(0..0, length.to_le_bytes());
            let _ = decompress(BodyCodec::Zstd, &stored);
            let _ = decompress(BodyCodec::Lz4Frame, &stored);
        }
    }
}
