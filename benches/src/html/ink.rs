//! Colours: one for each contender, the same in all plots.

use plotters::style::RGBColor;

/// Of text in plots. The style sheet replaces it by one that suits the page, which may be light or dark.
pub(super) const INK: RGBColor = RGBColor(0x10, 0x20, 0x30);
/// Of lines that only help the eye; replaced likewise.
pub(super) const GRID: RGBColor = RGBColor(0xC0, 0xC0, 0xC1);

/// Readable on white and on black, and far from urgo's, which is first.
const KNOWN: &[(&str, u32)] = &[
    ("urgo", 0xE8_50_2A),
    ("go", 0x00_A0_C2),
    ("tokio", 0x7B_61_D6),
    ("tokio multi", 0xB0_6F_D8),
    ("may", 0x2E_9E_5B),
    ("monoio", 0xC7_95_1A),
    ("crossbeam", 0x3C_7D_DB),
    ("std", 0x8A_8F_98),
    ("kanal", 0xD1_4E_9A),
    ("parking_lot", 0x86_9B_14),
    ("corosensei", 0xA0_71_3A),
    ("rayon", 0xB0_3A_5B),
    ("raw ring", 0x6B_7D_90),
    ("raw multishot", 0x2F_93_93),
    ("raw epoll", 0x9A_8F_5A),
    ("hyper", 0x5A_70_E0),
    ("may_minihttp", 0x58_B3_6B),
    ("threads", 0xB5_7D_9E),
];

/// The contender's colour; who is not known gets one by name, which another may have, too.
pub(super) fn of(contender: &str) -> RGBColor {
    let known = KNOWN.iter().find(|(name, _)| *name == contender);
    let (_, code) = known.unwrap_or_else(|| {
        let sum: usize = contender.bytes().map(usize::from).sum();
        &KNOWN[1 + sum % (KNOWN.len() - 1)]
    });
    let [_, red, green, blue] = code.to_be_bytes();
    RGBColor(red, green, blue)
}

/// As CSS has it.
pub(super) fn css(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}
