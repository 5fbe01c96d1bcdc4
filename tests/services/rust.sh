# Rust is not installed by these scripts: it comes from rustup or the distribution. Source this to check that it is there.
if ! command -v cargo > /dev/null; then
  [ ! -f "$HOME/.cargo/env" ] || . "$HOME/.cargo/env"
  command -v cargo > /dev/null || { echo "Rust 1.95 or later is needed: install it with rustup, then run this again" >&2; exit 1; }
fi
