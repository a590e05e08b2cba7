#!/usr/bin/env bash
# `make install`, staged by DESTDIR: everything lands where it should, and a program finds it by pkg-config.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

DESTDIR=$dir/stage cmake --install "$PAWL_BUILD_DIR" >/dev/null
prefix=$(sed -n 's/^CMAKE_INSTALL_PREFIX:[A-Z]*=//p' "$PAWL_BUILD_DIR/CMakeCache.txt")
root=$dir/stage$prefix
pc=$(find "$root" -name pawl.pc)
lib=$(dirname "$(dirname "$pc")")

for file in "$root/bin/pawl" "$root/include/pawl.h" "$root/include/pawl/store.h" "$lib/libpawl.a" "$lib/libpawl.so" "$lib/libpawl.so.0" \
    "$root/share/man/man1/pawl.1" "$root/share/man/man1/pawl-doctor.1" "$root/share/man/man3/pawl.3" \
    "$root/share/bash-completion/completions/pawl" "$root/share/zsh/site-functions/_pawl" \
    "$root/share/fish/vendor_completions.d/pawl.fish"; do
    [ -e "$file" ] || { echo "not installed: ${file#"$dir/stage"}"; exit 1; }
done

cat >"$dir/program.c" <<'C'
#include <pawl/store.h>
#include <stdio.h>

int main(void)
{
    puts(pawl_version());
    return 0;
}
C
export PKG_CONFIG_PATH=$lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$dir/stage
read -ra flags <<<"${CFLAGS:-} $(pkg-config --cflags --libs pawl)"
"$CC" -o "$dir/shared" "$dir/program.c" "${flags[@]}"
read -ra flags <<<"${CFLAGS:-} $(pkg-config --cflags pawl)"
read -ra libs <<<"$(pkg-config --libs-only-l --static pawl | sed "s|-lpawl|$lib/libpawl.a|")"
"$CC" -o "$dir/static" "$dir/program.c" "${flags[@]}" "${libs[@]}"
version=$(sed -n 's/^#define PAWL_VERSION "\(.*\)"/\1/p' "$root/include/pawl.h")
[ "$(LD_LIBRARY_PATH=$lib "$dir/shared")" = "$version" ]
[ "$("$dir/static")" = "$version" ]
[ "$(pkg-config --modversion pawl)" = "$version" ]
