# SPDX-License-Identifier: BSD-2-Clause
# make install and uninstall, and the Debian package in a root that has only the package's
# dependencies.

# shellcheck disable=SC2030,SC2031 # each test has its own

load helpers

SRC=$BATS_TEST_DIRNAME/..

# Without the variables of the make that runs the tests.
in_source() { # [-s STATUS] [-t SEC] ARG...
	local opts=()

	while [[ $1 == -[st] ]]; do
		opts+=("$1" "$2")
		shift 2
	done
	capture "${opts[@]}" env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -C "$SRC" O="$O" \
		--no-print-directory "$@"
}

files_of() { # DIR
	(cd "$1" && find . ! -type d | sort)
}

pages() {
	(cd "$SRC/man" && printf '%s\n' *.[1578])
}

# Files of an installation below PREFIX; pages end with SUFFIX.
expected_files() { # PREFIX [SUFFIX]
	local page

	{
		printf '%s\n' "$1/bin/funcsnoop" "$1/bin/funcsnoop-demo" \
			"$1/lib/funcsnoop/libfuncsnoop-gpu.so" \
			"$1/share/bash-completion/completions/funcsnoop" \
			"$1/share/doc/funcsnoop/README.md"
		(cd "$SRC/man" && printf "$1/share/doc/funcsnoop/%s\n" examples/*)
		for page in $(pages); do
			echo "$1/share/man/man${page##*.}/$page${2-}"
		done
	} | sort
}

# As on a machine that has make and nothing else to build with.
@test "install: only building needs a compiler, and says how to get one" {
	local none=(CC=nosuch CXX=nosuch CLANG=nosuch PKG_CONFIG=nosuch BPFTOOL=nosuch) target

	for target in help 'clean -n' 'deps -n' 'deps-extra -n' 'check-distros -n'; do
		# shellcheck disable=SC2086	# two words
		in_source $target "${none[@]}"
		assert_stderr ""
	done
	# With -n the make within runs, too, and misses what tests/deps has not installed.
	for target in demo check; do
		in_source -s 2 -n $target "${none[@]}"
		assert_output_match "^tests/deps --check .*\|\| tests/deps$"
		assert_stderr_match "no compiler: 'nosuch' is not there\. On Debian .* apt install gcc,"
	done
	in_source -s 2 all PKG_CONFIG=nosuch
	assert_stderr_match "missing libraries: .* apt install pkg-config .*libbpf-dev .*liblzma-dev,"
	in_source -s 2 all CLANG=nosuch
	assert_stderr_match "missing tools: nosuch\. On Debian: apt install clang"
}

@test "install: puts program, pages and completion below DESTDIR and PREFIX" {
	local root=$BATS_TEST_TMPDIR/root

	in_source install DESTDIR="$root"
	assert_eq "$(files_of "$root")" "$(expected_files ./usr/local)"
	assert_eq "$(stat -c %a "$root/usr/local/bin/funcsnoop")" 755
	assert_eq "$(find "$root" -type f ! -path '*/bin/*' ! -perm 0644)" "" "not mode 0644"
	cmp "$FUNCSNOOP" "$root/usr/local/bin/funcsnoop"
	capture "$root/usr/local/bin/funcsnoop" version
	assert_output_match "^funcsnoop [0-9]"
	# Installed units have the program's path.
	capture grep -h ExecStart= "$root"/usr/local/share/doc/funcsnoop/examples/*.service
	assert_output_match "^ExecStart=/usr/local/bin/funcsnoop "
}

# A table's functions and their calls.
calls_of() { # TEXT
	awk '$1 ~ /^demo_/ && $2 ~ /^[0-9]+$/ { print $1, $2 }' <<<"$1" | sort -u
}

@test "README: its console examples work after make install" {
	local root=$BATS_TEST_TMPDIR/root screen line said=''

	need_bpf
	in_source install DESTDIR="$root"
	screen=$(awk '/^```console/ { on = 1; next } /^```/ { on = 0 } on' "$SRC/README.md")
	while IFS= read -r line; do
		[[ $line == '$ '* ]] || continue
		line=${line#'$ '} line=${line%% # *} line=${line#sudo }
		line=${line//'/usr/local'/$root/usr/local}
		PATH=$root/usr/local/bin:$PATH capture -t 60 bash -c "$line"
		said+=$output$'\n'$stderr$'\n'
	done <<<"$screen"
	assert_eq "$(grep -c '^\$ ' <<<"$screen")" 5 "commands"
	# All that runs twice is in the last reading; what each shows is in the README.
	assert_eq "$(calls_of "$said")" "$(calls_of "$screen")" "calls"
	assert_eq "$(grep -c FAILED <<<"$said")" "$(grep -c FAILED <<<"$screen")" "failed calls shown"
	poll_until -t 30 no_test_processes
	fsn list
	assert_stderr "funcsnoop list: nothing is attached"
	# The one in the background has its own time.
	poll_until no_test_processes
}

@test "uninstall: removes what install added, and leaves other files" {
	local root=$BATS_TEST_TMPDIR/root

	in_source install DESTDIR="$root" PREFIX=/opt/fsn
	assert_eq "$(files_of "$root")" "$(expected_files ./opt/fsn)"
	touch "$root/opt/fsn/bin/other" "$root/opt/fsn/share/man/man8/other.8"
	in_source uninstall DESTDIR="$root" PREFIX=/opt/fsn
	assert_eq "$(files_of "$root")" "./opt/fsn/bin/other
./opt/fsn/share/man/man8/other.8"
	[[ ! -d $root/opt/fsn/share/doc/funcsnoop ]] || fail "an empty folder is left"
	# A second uninstall is not an error.
	in_source uninstall DESTDIR="$root" PREFIX=/opt/fsn
}

@test "install: other directories can be set for programs and pages" {
	local root=$BATS_TEST_TMPDIR/root

	in_source install DESTDIR="$root" PREFIX=/usr BINDIR=/usr/sbin MANDIR=/man
	[[ -x $root/usr/sbin/funcsnoop && -e $root/man/man8/funcsnoop.8 ]]
	in_source uninstall DESTDIR="$root" PREFIX=/usr BINDIR=/usr/sbin MANDIR=/man
	assert_eq "$(files_of "$root")" ""
}

# --- the package ------------------------------------------------------------------------

# Sets DEB. The package is made once, of the program that has been built.
need_deb() {
	need_tool dpkg-deb dpkg-shlibdeps dpkg-buildflags dpkg strip
	[[ -e /var/lib/dpkg/status ]] || skip "no Debian system"
	if [[ ! -e $BATS_FILE_TMPDIR/deb ]]; then
		in_source deb BUILT="$O"
		tail -n 1 <<<"$output" >"$BATS_FILE_TMPDIR/deb"
	fi
	DEB=$(<"$BATS_FILE_TMPDIR/deb")
	[[ -s $DEB ]] || fail "no package $DEB"
}

field() { # NAME
	dpkg-deb -f "$DEB" "$1"
}

# Names of the packages that those named depend on, and so on; installed ones.
closure() { # PACKAGE...
	local todo=("$@") seen=' ' name dep

	while ((${#todo[@]})); do
		name=${todo[0]}
		todo=("${todo[@]:1}")
		[[ $seen != *" $name "* ]] || continue
		seen+="$name "
		while read -r dep; do
			todo+=("$dep")
		done < <(dpkg-query -W -f '${Pre-Depends}, ${Depends}\n' "$name" 2>/dev/null |
			tr ',' '\n' | sed -n 's/^ *\([a-z0-9.+-]\+\).*/\1/p')
	done
	# shellcheck disable=SC2086	# several words
	printf '%s\n' $seen
}

@test "deb: the package is built with the distribution's flags" {
	need_deb
	in_source deb -n V=1
	assert_output_match "cc .*-fstack-protector-strong .* -o $O/deb/build/lib/base/err.o\$"
	assert_output_match "cc .*-Wl,-z,relro -Wl,-z,now -o $O/deb/build/funcsnoop "
}

@test "deb: the package has every file in its place" {
	local root=$BATS_TEST_TMPDIR/root page

	need_deb
	dpkg-deb -x "$DEB" "$root"
	assert_eq "$(files_of "$root")" "$({
		expected_files ./usr .gz
		printf '%s\n' ./usr/share/doc/funcsnoop/{changelog.gz,copyright}
		(cd "$SRC/man/examples" && printf './usr/lib/systemd/system/%s\n' *.{socket,service,timer})
	} | sort)"
	assert_eq "$(dpkg-deb -c "$DEB" | awk '$2 != "root/root"')" "" "not root's"
	assert_eq "$(dpkg-deb -c "$DEB" | awk '$1 ~ /^.....w|^........w|^...s|^......s/')" "" \
		"modes"
	for page in $(pages); do
		gzip -dc "$root/usr/share/man/man${page##*.}/$page.gz" | cmp - "$SRC/man/$page"
	done
	[[ -d $root/etc/funcsnoop/groups.d ]]
	capture grep -h ExecStart= "$root"/usr/lib/systemd/system/*.service
	assert_output_match "^ExecStart=/usr/bin/funcsnoop "
	dpkg-deb -e "$DEB" "$BATS_TEST_TMPDIR/control"
	(cd "$root" && md5sum -c --quiet "$BATS_TEST_TMPDIR/control/md5sums")
	assert_eq "$(wc -l <"$BATS_TEST_TMPDIR/control/md5sums")" "$(files_of "$root" | wc -l)"
}

@test "deb: the package has its description and the version of the source" {
	need_deb
	fsn version --json
	assert_eq "$(field Version)" "$(json .funcsnoop)"
	assert_eq "$(field Package)" funcsnoop
	assert_eq "$(field Architecture)" "$(dpkg --print-architecture)"
	[[ $(field Maintainer) =~ ^.+\ \<.+@.+\>$ ]]
	[[ $(field Depends) =~ libbpf1\ .*libc6\ .*libcapstone4.*libdw1.*libelf1.*libjson-c5.*liblzma5 ]]
	if command -v lintian >/dev/null; then
		# It leaves files of its own.
		TMPDIR=$BATS_TEST_TMPDIR capture -s any -t 300 lintian --fail-on error,warning "$DEB"
		assert_output ""
		assert_eq "$status" 0
	fi
}

# A root with the files of the packages that DEB depends on, and their state: installed.
make_root() { # DIR
	local dir name pkgs

	mkdir -p "$1"/{usr/{bin,lib,lib64},var/lib/dpkg/{info,updates,triggers}}
	for dir in bin lib lib64; do
		ln -s "usr/$dir" "$1/$dir"
	done
	: >"$1/var/lib/dpkg/status"
	pkgs=$(field Depends | tr ',' '\n' | sed -n 's/^ *\([a-z0-9.+-]\+\).*/\1/p')
	# shellcheck disable=SC2086	# several words
	for name in $(closure $pkgs); do
		dpkg-query -s "$name" >>"$1/var/lib/dpkg/status" 2>/dev/null || continue
		echo >>"$1/var/lib/dpkg/status"
		dpkg-query -L "$name" | grep -E '^(/usr)?/lib(64)?/.*\.so(\.[0-9.]+)?$' |
			while read -r file; do
				mkdir -p "$1$(dirname "$file")"
				cp -d --preserve=mode "$file" "$1$file"
			done
	done
}

@test "deb: the package is installed into a clean root, runs there, and is removed" {
	local root=$BATS_TEST_TMPDIR/root before c

	need_root
	need_deb
	make_root "$root"
	before=$(files_of "$root")
	# Without --force: every dependency must be there.
	capture dpkg --root="$root" --no-triggers --log=/dev/null -i "$DEB"
	capture dpkg --root="$root" -s funcsnoop
	assert_output_line "Status: install ok installed"
	capture dpkg --root="$root" -L funcsnoop
	assert_output_line /usr/bin/funcsnoop

	capture chroot "$root" /usr/bin/funcsnoop --help
	assert_output_match "^Usage: funcsnoop "
	for c in attach list stats reset set detach feature; do
		capture chroot "$root" /usr/bin/funcsnoop $c --help
		assert_output_match "^Usage: funcsnoop $c"
	done
	capture chroot "$root" /usr/bin/funcsnoop version
	assert_output_match "^funcsnoop $(field Version)$"
	capture chroot "$root" /usr/bin/funcsnoop list presets
	assert_output_match "^cuda "
	# The library, its symbols and the disassembler.
	capture chroot "$root" /usr/bin/funcsnoop attach my getpid --count --dry-run --lib \
		"$(cd "$root" && find usr/lib -name libc.so.6 -printf '/%p')"
	assert_output_match "^getpid "
	# Its completion, in a shell that knows nothing else of it.
	# shellcheck disable=SC2016	# the other bash's
	capture bash --norc -c '. "$1" && complete -p funcsnoop' bash \
		"$root/usr/share/bash-completion/completions/funcsnoop"
	assert_output "complete -F _funcsnoop funcsnoop"

	capture dpkg --root="$root" --no-triggers --log=/dev/null --purge funcsnoop
	assert_eq "$(files_of "$root" | grep -v '/var/lib/dpkg/')" \
		"$(grep -v '/var/lib/dpkg/' <<<"$before")" "what is left after the removal"
	[[ ! -d $root/usr/share/doc/funcsnoop ]]
}

@test "deb: dpkg refuses the package without its dependencies" {
	local root=$BATS_TEST_TMPDIR/root

	need_root
	need_deb
	mkdir -p "$root"/var/lib/dpkg/{info,updates,triggers}
	: >"$root/var/lib/dpkg/status"
	capture -s any dpkg --root="$root" --no-triggers --log=/dev/null -i "$DEB"
	[[ $status != 0 ]] || fail "no dependency is asked for"
	assert_stderr_match "depends on libbpf1"
}
