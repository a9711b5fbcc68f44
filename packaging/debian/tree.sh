# What lies where in each package; sourced by packaging/build-debs, which sets arch, triplet, version, binaries and work.

# Runs a program of the architecture that is packed: as it is, or emulated.
foreign() {
  if [ "$arch" = "$(dpkg --print-architecture)" ]; then "$@"; else
    "qemu-$machine-static" -L "/usr/$triplet" "$@"
  fi
}

# Manual pages and completions, made by the programs that they are about: below FOLDER, those of the package `punctual`; below
# FOLDER/lab those of `punctual-lab`.
manuals() {
  foreign "$binaries/punctual" manuals --into "$1"
  foreign "$binaries/punctual-lab" manuals --into "$1/lab"
  foreign "$binaries/punctual-bench" manuals --into "$1/lab"
  # `punctual bench` is punctual-bench, whose page is the package punctual-lab's.
  rm "$1/man1/punctual-bench.1"
  mkdir -p "$1/man5"
  packaging/manifest-page docs/manifest.md "$version" >"$1/man5/punctual-manifest.5"
}

# program FROM TO: without symbols and debug information.
program() {
  install -D -m 755 "$1" "$2"
  "$triplet-strip" --strip-all --remove-section=.comment "$2"
}

tree_punctual() {
  local root=$1
  program "$binaries/punctual" "$root/usr/bin/punctual"
  program "$binaries/punctuald" "$root/usr/bin/punctuald"
  program "$binaries/punctual-v4l2" "$root/usr/bin/punctual-v4l2"
  described "$root" "$work/manuals" punctual punctuald punctual-v4l2
  install -D -m 644 -t "$root/usr/share/punctual/boards" boards/*.toml
  install -D -m 644 -t "$root/usr/share/punctual/models" models/signs/signs.punctual
  install -D -m 644 -t "$root/usr/share/doc/punctual/examples" examples/*.toml
  install -D -m 644 -t "$root/usr/share/punctual/monitoring" monitoring/alerts.yml monitoring/dashboard.json
  install -d "$root/etc/punctual"
  units "$root"
}

# described ROOT FOLDER PROGRAM...: the manual pages in the folder, and the programs' completions.
described() {
  local root=$1 from=$2 page program
  for page in "$from"/man*/*; do
    install -D -m 644 "$page" "$root/usr/share/man/man${page##*.}/${page##*/}"
  done
  for program in "${@:3}"; do
    install -D -m 644 "$from/completions/bash/$program.bash" "$root/usr/share/bash-completion/completions/$program"
    install -D -m 644 "$from/completions/zsh/_$program" "$root/usr/share/zsh/vendor-completions/_$program"
    install -D -m 644 "$from/completions/fish/$program.fish" "$root/usr/share/fish/vendor_completions.d/$program.fish"
  done
}

tree_punctual-lab() {
  program "$binaries/punctual-lab" "$1/usr/bin/punctual-lab"
  program "$binaries/punctual-bench" "$1/usr/bin/punctual-bench"
  described "$1" "$work/manuals/lab" punctual-lab punctual-bench
}

# The service: its units, user, folders and messages, and the drop-ins that an integrator may choose.
units() {
  local root=$1 unit file
  for unit in systemd/*.service systemd/*.socket systemd/*.slice; do
    [ ! -e "$unit" ] || install -D -m 644 -t "$root/usr/lib/systemd/system" "$unit"
  done
  local from=systemd to
  for to in lib/sysusers.d lib/tmpfiles.d lib/systemd/catalog share/punctual/drop-ins; do
    for file in "$from/${to##*/}"/*.*; do
      [ ! -e "$file" ] || install -D -m 644 -t "$root/usr/$to" "$file"
    done
  done
}

# The client library as runtime/client-c installs it, all of it, at $work/client-c.
client_library() {
  [ -d "$work/client-c" ] || DESTDIR=$work/client-c PREFIX=/usr LIBDIR=/usr/lib/$triplet BUILT=$binaries sh runtime/client-c/install
}

tree_libpunctual0() {
  client_library
  local libraries=usr/lib/$triplet
  mkdir -p "$1/$libraries"
  cp -P "$work/client-c/$libraries"/libpunctual.so.0* "$1/$libraries/"
  "$triplet-strip" --strip-unneeded --remove-section=.comment "$1/$libraries/libpunctual.so.$version"
  chmod 644 "$1/$libraries/libpunctual.so.$version"
  echo "libpunctual 0 libpunctual0 (>= $version)" >"$1/DEBIAN/shlibs"
  echo "activate-noawait ldconfig" >"$1/DEBIAN/triggers"
}

tree_libpunctual-dev() {
  client_library
  local libraries=usr/lib/$triplet
  mkdir -p "$1/usr" "$1/$libraries"
  cp -R "$work/client-c/usr/include" "$1/usr/"
  cp -R "$work/client-c/$libraries/pkgconfig" "$1/$libraries/"
  cp -P "$work/client-c/$libraries/libpunctual.so" "$1/$libraries/"
  cp "$work/client-c/$libraries/libpunctual.a" "$1/$libraries/"
  "$triplet-strip" --strip-debug --enable-deterministic-archives "$1/$libraries/libpunctual.a"
  install -D -m 644 -t "$1/usr/share/doc/libpunctual-dev/examples" runtime/client-c/examples/*.c
}

tree_python3-punctual() {
  install -D -m 644 -t "$1/usr/lib/python3/dist-packages/punctual" runtime/client-python/src/punctual/*
  install -D -m 644 -t "$1/usr/share/doc/python3-punctual/examples" runtime/client-python/examples/*.py
}

tree_punctual-hil() {
  program "$binaries/punctual-hil" "$1/usr/bin/punctual-hil"
  program "$binaries/channel-torture" "$1/usr/bin/channel-torture"
}

# Changelog and licence, compressed manual pages.
documents() {
  local folder=$1/usr/share/doc/$2
  mkdir -p "$folder"
  cp packaging/debian/copyright "$folder/copyright"
  {
    echo "punctual ($version) stable; urgency=medium"
    echo
    echo "  * See CHANGELOG.md of the project for what is new."
    echo
    echo " -- The Punctual authors <authors@punctual.invalid>  $(date -R -d "@$SOURCE_DATE_EPOCH")"
  } | gzip -9n >"$folder/changelog.gz"
  [ ! -d "$1/usr/share/man" ] || find "$1/usr/share/man" -type f -exec gzip -9n {} +
}

# The newest symbol version of the C library that the package's programs ask for.
libc_needed() {
  find "$1" -type f \( -perm -u+x -o -name '*.so*' \) -print0 | xargs -0 -r readelf -V 2>/dev/null |
    grep -o 'GLIBC_2\.[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -n 1
}

# Control files, checksums, the package; PACKING is xz's effort.
finish() {
  local root=$1 package=$2 file for=$arch
  ! grep -q '^Architecture: all' "packaging/debian/$package.control" || for=all
  for file in postinst prerm postrm; do
    [ ! -e "packaging/debian/$package.$file" ] || install -m 755 "packaging/debian/$package.$file" "$root/DEBIAN/$file"
  done
  [ ! -e "packaging/debian/$package.lintian-overrides" ] ||
    install -D -m 644 "packaging/debian/$package.lintian-overrides" "$root/usr/share/lintian/overrides/$package"
  sed -e "s/@VERSION@/$version/g" -e "s/@ARCH@/$arch/" -e "s/@LIBC@/$(libc_needed "$root")/" \
    -e "s/@SIZE@/$(du -k -s --apparent-size --exclude=DEBIAN "$root" | cut -f 1)/" \
    "packaging/debian/$package.control" >"$root/DEBIAN/control"
  (cd "$root" && find usr -type f | sort | xargs md5sum) >"$root/DEBIAN/md5sums"
  find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  dpkg-deb --root-owner-group -Zxz -z${PACKING:-6} --build "$root" "$out/${package}_${version}_$for.deb"
}
