# SPDX-License-Identifier: BSD-2-Clause
# The package and the BPF programs for arm64, which tests/check-arm64 has built.

load helpers

@test "arm64: a cross-built package is for arm64, and depends on arm64 libraries" {
	local tree=$BATS_TEST_TMPDIR/tree deb file

	[[ -n ${SYSROOT-} ]] || skip "make check-arm64 builds for arm64"
	need_tool aarch64-linux-gnu-strip aarch64-linux-gnu-readelf dpkg-deb dpkg-shlibdeps dpkg-architecture
	# It is built: nothing is compiled.
	capture env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -C "$BATS_TEST_DIRNAME/.." O="$O" \
		SYSROOT="$SYSROOT" CC=aarch64-linux-gnu-gcc --no-print-directory install \
		DESTDIR="$tree" PREFIX=/usr
	refute_output_match '^ +CC '
	capture env SYSROOT="$SYSROOT" DEB_HOST_ARCH=arm64 DEB_HOST_GNU_TYPE=aarch64-linux-gnu \
		DEB_HOST_MULTIARCH=aarch64-linux-gnu \
		"$BATS_TEST_DIRNAME/../.packaging/deb" "$tree" 1.2.3 "$BATS_TEST_TMPDIR"
	deb=$output
	assert_eq "$deb" "$BATS_TEST_TMPDIR/funcsnoop_1.2.3_arm64.deb"
	assert_eq "$(dpkg-deb -f "$deb" Architecture)" arm64
	[[ $(dpkg-deb -f "$deb" Depends) =~ libbpf1\ \(.*libc6\ \(.*libcapstone4.*libdw1.*libelf1.*libjson-c5.*liblzma5 ]] ||
		fail "depends on $(dpkg-deb -f "$deb" Depends)"
	dpkg-deb -x "$deb" "$BATS_TEST_TMPDIR/root"
	for file in bin/funcsnoop bin/funcsnoop-demo lib/funcsnoop/libfuncsnoop-gpu.so; do
		capture aarch64-linux-gnu-readelf -h -S "$BATS_TEST_TMPDIR/root/usr/$file"
		assert_output_match '^ +Machine: +AArch64$'
		refute_output_match '\.symtab'
	done
}

@test "arm64: BPF functions that call each other fit the smallest stack" {
	[[ -n ${SYSROOT-} ]] || skip "make check-arm64 builds for arm64"
	need_tool python3
	command -v llvm-objdump llvm-objdump-14 >/dev/null || skip "no llvm-objdump"
	capture "$BATS_TEST_DIRNAME/stackdepth" "$O/bpf/funcsnoop.bpf.o"
}
