#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mainstem_fuzz::put(data));
