# SPDX-License-Identifier: BSD-2-Clause
# Wrong usage, files that are no libraries, missing privileges; help, version and the global
# options in both places.

# shellcheck disable=SC2154,SC2016

load helpers

LIB=$FIX/libfix.so

# --- hints ------------------------------------------------------------------------------

@test "errors: a directory with files is not suggested as a mount point" {
	mkdir "$BATS_TEST_TMPDIR/full" "$BATS_TEST_TMPDIR/empty"
	touch "$BATS_TEST_TMPDIR/full/file"
	fsn -s 1 stats --bpffs "$BATS_TEST_TMPDIR/full"
	assert_stderr "funcsnoop stats: '$BATS_TEST_TMPDIR/full' is not a bpffs
hint: name a mounted one, such as /sys/fs/bpf, or mount one on an empty directory"
	fsn -s 1 stats --bpffs "$BATS_TEST_TMPDIR/empty"
	assert_stderr_match "^hint: run 'mount -t bpf bpf $BATS_TEST_TMPDIR/empty'$"
}

@test "errors: a letter and a colon is not a library with a name of one letter" {
	fsn -s 1 attach my t:nosuch:event --dry-run
	assert_stderr_match "no tracepoint 'nosuch:event'|tracefs"
	refute_stderr_match "did you mean"
	fsn -s 1 attach my q:f --dry-run
	refute_stderr_match "did you mean"
}

# --- usage ------------------------------------------------------------------------------

@test "errors: a missing command prints the usage to stderr, with status 2" {
	fsn -s 2
	assert_output ""
	assert_stderr_match "^Usage: funcsnoop \[OPTION\.\.\.\] COMMAND"
}

@test "help: requested help goes to stdout, with status 0" {
	local args first

	fsn help
	assert_stderr ""
	first=$output
	assert_output_match "^Usage: funcsnoop \[OPTION\.\.\.\] COMMAND"
	for args in --help -h "-j --help"; do
		# shellcheck disable=SC2086	# several words
		fsn $args
		assert_output "$first"
		assert_stderr ""
	done
}

@test "help: lists commands, and 'help COMMAND', --help and -h print the same" {
	local command page

	fsn help
	for command in attach list stats reset set detach feature help version; do
		assert_output_match "^  $command +"
	done
	for command in attach list stats reset set detach feature; do
		fsn help $command
		assert_output_match "^Usage: funcsnoop $command"
		assert_stderr ""
		page=$output
		fsn $command --help
		assert_output "$page"
		fsn $command -h
		assert_output "$page"
	done
}

@test "version: is printed by a command and two options" {
	fsn version
	assert_output_match "^funcsnoop [0-9]+\.[0-9]+"
	assert_output_match "^using libbpf v?[0-9]+\.[0-9]+"
	fsn --version
	assert_output_match "^funcsnoop [0-9]"
	fsn -V
	assert_output_match "^funcsnoop [0-9]"
	fsn --json version
	assert_json 'keys_unsorted' '["funcsnoop","libbpf"]'
	fsn version --json
	assert_json '.funcsnoop | test("^[0-9]+[.][0-9]+")' true
	fsn -s 2 version x
}

@test "errors: an unknown command is wrong usage, with a similar one" {
	fsn -s 2 atach
	assert_output ""
	assert_stderr "funcsnoop: unknown command 'atach'; did you mean 'attach'?
hint: 'funcsnoop help' shows the usage"
	fsn -s 2 xyzzy
	assert_stderr "funcsnoop: unknown command 'xyzzy'
hint: 'funcsnoop help' shows the usage"
	fsn -s 2 --json stas
	assert_json .error 'unknown command '\''stas'\''; did you mean '\''stats'\''?'
	fsn -s 2 help xyzzy
	assert_stderr_match "unknown command 'xyzzy'"
	assert_stderr_match "^hint: 'funcsnoop help' shows the usage$"
}

@test "errors: every command refuses an unknown option as wrong usage" {
	local command

	for command in "" attach list stats reset set detach version; do
		# shellcheck disable=SC2086	# no word for none
		fsn -s 2 $command --nosuch
		assert_output ""
		assert_stderr_match "^funcsnoop( $command)?: .*--nosuch"
		# shellcheck disable=SC2086
		fsn -s 2 --json $command --nosuch
		[[ -z $command ]] || assert_json 'keys' '["error"]'
	done
}

@test "errors: a wrong value is wrong usage, with the valid ones" {
	fsn -s 2 attach g f --probe link=nosuch
	assert_stderr_match "^funcsnoop attach: --probe link is auto, session, multi or perf, not 'nosuch'$"
	fsn -s 2 attach g f --probe exit=nosuch
	assert_stderr_match "^funcsnoop attach: --probe exit is auto, return, early, ret or none, not 'nosuch'$"
	fsn -s 2 attach g f --probe site=nosuch
	assert_stderr_match "^funcsnoop attach: --probe site is auto or entry, not 'nosuch'$"
	fsn -s 2 attach g f --slow 5
	assert_stderr_match "^funcsnoop attach: --slow: '5' has no unit"
	fsn -s 2 attach g f --slow 5parsecs
	fsn -s 2 attach g f --sample 0
	fsn -s 2 attach g f --sample -3
	for share in 5 x% -5% 5%% 1.2.3% '' 0x5%; do
		fsn -s 2 attach g f --overhead "$share"
		assert_stderr_match "^funcsnoop attach: --overhead '$share' is not a share such as 5%$"
	done
	for share in 0% 0.001% 10001%; do
		fsn -s 2 attach g f --overhead "$share"
		assert_stderr_match "^funcsnoop attach: --overhead '$share' is not from 0.01% to 10000%$"
	done
	fsn -s 2 attach g f --pid 0
	fsn -s 2 attach g f --pid x
	fsn -s 2 --color nosuch list
	assert_stderr_match "^funcsnoop: --color is auto, always or never, not 'nosuch'$"
	fsn -s 2 list --color nosuch
	fsn -s 2 attach
	assert_stderr "funcsnoop attach: no group given
hint: 'funcsnoop help attach' shows the usage"
	fsn -s 2 attach --json
	assert_json .error 'no group given'
}

# MESSAGE|ARGUMENTS: wrong usage, each with the message as it is printed.
usage_table() {
	cat <<-'END'
		attach: --if more than once: join the terms with &&|attach g f --if arg1==1 --if arg2==1
		attach: --name with --config needs exactly one group|attach --config two.json --name n --dry-run
		attach: --share: ':' is not USER:GROUP|attach g f --share :
		attach: --by: at most 2 keys next to stack|attach g f --by arg1,arg2,arg3,stack
		attach: --by: at most 3 of them|attach g f --by stack,arg1,arg2,arg3
		attach: --sum: at most 2 of them|attach g f --sum arg1 --sum arg2 --sum arg3
		attach: --if uid 'a:b' is not a user|attach g f --if uid==a:b
		attach: --for '0s' is too short|attach g f --for 0s
		list: 'list presets' takes no further words|list presets cuda
		list: --by and --top go with 'list allocations'|list --top 3
		list: --verbose goes with 'list' and groups|list presets -v
		list: 'list targets' needs a FUNCTION: 's:*', 'k:vfs_*', LIB:glob|list targets
		run: no command after '--'|run --config two.json --
		serve: --by is process, cgroup or keys, not 'stack'|serve --inetd --by stack
		set: one group at a time, not also 'b'|set a b --slow 1ms
		set: nothing to change: give --slow, --pid or --if|set a
		stats: --fail-if 'calls>1.5': '1.5' is not a whole number|stats --fail-if calls>1.5
		stats: --fail-if 'calls~5' lacks one of > >= < <= = !=|stats --fail-if calls~5
	END
}

@test "messages: wrong usage names the error and the help" {
	local message args cnt=0

	cd "$BATS_TEST_TMPDIR" || return
	echo "{\"a_sym\":{\"f\":\"fix_add\"},\"b_sym\":{\"f\":\"fix_add\"},\"lib\":\"$LIB\"}" >two.json
	while IFS='|' read -r message args; do
		set -f # globs are for the command
		# shellcheck disable=SC2086	# several words
		fsn -s 2 $args
		set +f
		assert_stderr "funcsnoop $message
hint: 'funcsnoop help ${args%% *}' shows the usage"
		((cnt += 1))
	done < <(usage_table)
	assert_eq "$cnt" "$(usage_table | wc -l)"
	fsn -s 2 stats --fail-if 'size>1'
	assert_stderr_match "^funcsnoop stats: --fail-if 'size>1' does not start with a metric of stats; "
	fsn -s 2 attach g f --if "arg1 == \"$(printf '%5000s' '')\""
	assert_stderr_match "^funcsnoop attach: --if is longer than [0-9]+ bytes$"
	fsn -s 1 run --config two.json
	assert_stderr_match "two.json has 2 groups: which one\?$"
	fsn -s 1 attach g cpu:nosuch --dry-run
	assert_stderr "funcsnoop attach: 'cpu:nosuch': CPUs have samples
hint: did you mean 'cpu:samples'"
	cp "$LIB" other.so
	fsn -s 1 attach g +0x1000 --lib "$LIB" --lib ./other.so --dry-run
	assert_stderr "funcsnoop attach: '+0x1000' is an offset in one file, but 2 libraries are meant"
}

@test "options: accept each documented value and no prefix of it" {
	local option name values value

	# Command and option, the name in messages, then its values.
	while IFS='|' read -r option name values; do
		# shellcheck disable=SC2086	# a command and its option
		fsn -s 2 ${option}nosuch
		assert_stderr_match "^funcsnoop ${option% *}: $name is $values, not 'nosuch'$"
		for value in ${values//,/ }; do
			[[ $value != or ]] || continue
			# shellcheck disable=SC2086
			fsn $option$value --usage
			# shellcheck disable=SC2086
			fsn -s 2 "${option% *}" "${option#* }${value%?}" --usage
		done
		# shellcheck disable=SC2086
		fsn -s 2 $option --usage
	done <<-'EOF'
		attach --probe=exit=|--probe exit|auto, return, early, ret or none
		attach --probe=site=|--probe site|auto or entry
		attach --probe=link=|--probe link|auto, session, multi or perf
		attach --with=|--with|split or memory
		attach --without=|--without|nesting, processes or correction
		stats --show=|--show|hist, errors, slow or tree
		stats --format=|--format|table, json, csv, folded, flame, pprof, prometheus or openmetrics
		stream --events=|--events|call, entry, exit or all
		stream --format=|--format|text, json, chrome or perfetto
		list --color=|--color|auto, always or never
	EOF
}

@test "errors: an unknown option is wrong usage, with similar ones" {
	local line

	# Arguments, then the message.
	while IFS='|' read -r args line; do
		# shellcheck disable=SC2086	# several words
		fsn -s 2 $args
		assert_output ""
		assert_stderr "$line
hint: 'funcsnoop help${args:+ ${args%% *}}' shows the usage"
	done <<-'END'
		stats --srot x|funcsnoop stats: unknown option '--srot'; did you mean '--sort'?
		stats --intervall=1|funcsnoop stats: unknown option '--intervall'; did you mean '--interval'?
		attach g f --dryrun|funcsnoop attach: unknown option '--dryrun'; did you mean '--dry-run'?
		set g --slwo 1ms|funcsnoop set: unknown option '--slwo'; did you mean '--slow'?
		detach --al1|funcsnoop detach: unknown option '--al1'; did you mean '--all'?
		list --jsno|funcsnoop list: unknown option '--jsno'; did you mean '--json'?
		attach g -Z|funcsnoop attach: unknown option '-Z'
		stats --s|funcsnoop stats: option '--s' is ambiguous
		attach g f --lib|funcsnoop attach: option '--lib' needs a value
		attach g f -l|funcsnoop attach: option '-l' needs a value
		reset --json=1|funcsnoop reset: option '--json' takes no value
		stats --top 0|funcsnoop stats: --top '0' is not a number above 0
		version x|funcsnoop version: takes no argument 'x'
	END
	fsn -s 2 --jsno list
	assert_stderr "funcsnoop: unknown option '--jsno'; did you mean '--json'?
hint: 'funcsnoop help' shows the usage"
	# Values that look like options are values, and unambiguous beginnings are options.
	fsn attach g fix_add --lib "$LIB" --name --x --dry-run --quie ||
		assert_stderr_match "^funcsnoop attach: .*'--x'"
	fsn list presets --pret
	# After -- nothing is an option.
	fsn -s 1 stats -- --nosuch
	assert_stderr_match "'--nosuch'"
}

# For each failure of each command, standard output is one JSON object with the key error, and
# standard error has the same text.
@test "errors: with --json, each failure of each command is one JSON object" {
	local args bad=$BATS_TEST_TMPDIR/bad.json none=$BATS_TEST_TMPDIR/nobpffs commands c cnt=0

	need_tool jq
	mkdir "$none"
	echo '{ broken' >"$bad"
	commands=$("$FUNCSNOOP" help --words | grep -v '^-')
	{
		for c in $commands; do
			[[ $c == help ]] || echo "2 $c --nosuch"
			[[ $c == help ]] || echo "2 $c --bpffs"
		done
		for c in list stats reset "set g --slow 1ms" "detach g" \
			"attach g fix_add --lib $LIB" "list inflight" "list functions g"; do
			echo "1 $c --bpffs $none"
			echo "1 $c --bpffs /nowhere"
		done
		for c in stats reset "set --slow 1ms" detach "list functions" "list inflight" list; do
			[[ -n ${FSN_NO_BPF-} ]] || echo "1 $c nosuch"
			[[ -n ${FSN_NO_BPF-} ]] || echo "1 $c bad/name"
		done
		cat <<-END
			2 attach
			2 attach g f --probe exit=nosuch
			2 attach g f --share 0666
			2 attach g f --share :nosuchgroup
			1 attach nosuch
			1 attach g nosuch --lib $LIB
			1 attach g f --lib /nonexistent
			1 attach g f --lib $bad
			1 attach --config $bad
			1 attach --config /nonexistent
			1 attach g f --pid 4194304
			1 attach g [ --regex --lib $LIB
			2 list presets x
			2 list --older-than 5
			2 list functions
			2 stats --sort nosuch
			2 stats --fail-if nosuch
			2 stats --top x
			1 stats --diff /nonexistent
			1 stats --diff $bad
			2 stats --by process --show hist
			2 set
			2 set g
			2 detach
			2 detach g --all
			2 feature x
			2 version x
			2 nosuch
			2 --nosuch list
			2 --color nosuch list
			2 help nosuch
		END
	} >"$BATS_TEST_TMPDIR/failures"
	while read -r want args; do
		# shellcheck disable=SC2086	# several words
		fsn -s "$want" --json $args
		assert_eq "$(jq -c 'keys' <<<"$output")" '["error"]' "standard output of --json $args"
		[[ $stderr == *"$(json .error)"* ]] ||
			fail "stderr of '$args' does not have the message: $(json .error)"
		[[ $stderr == "funcsnoop"* ]]
		((++cnt))
	done <"$BATS_TEST_TMPDIR/failures"
	echo "# $cnt failures" >&3
}

# --- global options ---------------------------------------------------------------------

# bats test_tags=bpf
@test "options: global options can precede or follow the command" {
	need_bpf
	fsn -j list
	assert_output '{"version":1,"groups":[]}'
	fsn list -j
	assert_output '{"version":1,"groups":[]}'
	fsn --json list
	assert_output '{"version":1,"groups":[]}'
	fsn list --json
	assert_output '{"version":1,"groups":[]}'
	fsn -q list
	assert_stderr ""
	fsn list --quiet
	assert_stderr ""
	fsn list
	assert_stderr "funcsnoop list: nothing is attached"
}

@test "options: -p is --pid everywhere; before a command it is that of run" {
	local files=("$BATS_TEST_DIRNAME"/../lib/presets/*.json)

	# All system calls are a preset, too.
	fsn list presets --pretty
	assert_json 'length' $((${#files[@]} + 1))
	((${#lines[@]} > 20))
	fsn list presets --json
	assert_eq "${#lines[@]}" 1
	fsn version --json
	assert_eq "$(command jq 'has("version")' <<<"$output")" true
	fsn -s 2 -p list presets
	assert_stderr_match "^funcsnoop run: --pid 'list' is not a number"
	fsn -s 1 --bpffs "$FUNCSNOOP_BPFFS" -p 4194304
	assert_stderr_match "^funcsnoop run: there is no process 4194304"
	fsn -s 1 --pid=4194304 -d 1
	assert_stderr_match "^funcsnoop run: there is no process 4194304"
	fsn -s 2 attach g fix_add --lib "$LIB" -n -p list
	assert_stderr_match "^funcsnoop attach: --pid 'list' is not a number"
	fsn -s 1 attach g fix_add --lib fix -n -p 4194304
	assert_stderr_match "no process 4194304"
}

@test "options: -d and --debug work before the command, --debug also after it" {
	fsn -d version
	fsn --debug version
	fsn version --debug
}

# --- files ------------------------------------------------------------------------------

# Says what is wrong with FILE in one line that begins so, and attaches nothing.
no_library() { # FILE REGEX
	fsn -s 1 attach g fix_add --lib "$1" --dry-run
	assert_output ""
	grep -qE -e "^funcsnoop attach: .*$2" <<<"${stderr%%$'\n'*}" ||
		fail "about '$1' was not said: $2"
	fsn -s 1 attach g fix_add --lib "$1" --dry-run --json
	assert_json 'keys' '["error"]'
}

@test "errors: a missing library is an error, with similar names" {
	no_library /nosuch.so "'/nosuch.so'.*No such file or directory"
	no_library nosuchlibrary "no library or program 'nosuchlibrary'"
	export LD_LIBRARY_PATH=$FIX
	fsn -s 1 attach g fix_add --lib libfxi.so --dry-run
	assert_stderr_match "^hint: .*'libfix\.so'"
}

@test "errors: a file that is not a library is refused with the reason" {
	local dir=$BATS_TEST_TMPDIR

	no_library /etc/passwd "'/etc/passwd' is not an ELF file"
	: >"$dir/empty"
	no_library "$dir/empty" "'$dir/empty'.*(is not an ELF file|empty|truncated)"
	mkdir "$dir/folder"
	no_library "$dir/folder" "'$dir/folder'"
	mkfifo "$dir/fifo"
	no_library "$dir/fifo" "'$dir/fifo'"
	no_library /dev/zero "'/dev/zero'"
	ln -s nowhere "$dir/dangling"
	no_library "$dir/dangling" "'$dir/dangling'.*No such file"
	ln -s loop "$dir/loop"
	no_library "$dir/loop" "'$dir/loop'"
}

@test "errors: a truncated library is refused or probed, without a crash" {
	local size cut=$BATS_TEST_TMPDIR/cut.so whole

	whole=$(stat -Lc %s "$LIB")
	for size in 1 16 63 64 100 500 1000 4000 $((whole / 2)) $((whole - 1000)) $((whole - 1)); do
		head -c "$size" "$LIB" >"$cut"
		fsn -s any attach g fix_add --lib "$cut" --dry-run --json
		[[ $status == [01] ]] || fail "status $status of $size bytes"
		if ((status)); then assert_json 'keys' '["error"]'; fi
	done
	head -c 100 "$LIB" >"$cut"
	no_library "$cut" "truncated"
}

@test "errors: a 32-bit library is refused with the reason" {
	printf '\x7fELF\x01\x01\x01' >"$BATS_TEST_TMPDIR/small.so"
	head -c 200 /dev/zero >>"$BATS_TEST_TMPDIR/small.so"
	no_library "$BATS_TEST_TMPDIR/small.so" "32"
	if echo 'int f(void) { return 1; }' |
		cc -m32 -shared -nostdlib -x c - -o "$BATS_TEST_TMPDIR/real.so" 2>/dev/null; then
		no_library "$BATS_TEST_TMPDIR/real.so" "32"
	fi
}

@test "errors: a library of another architecture is refused, and named in the error" {
	# e_machine, at byte 18, says PowerPC.
	cp "$FIX/libfix.so.1" "$BATS_TEST_TMPDIR/other.so"
	printf '\x15\x00' | dd of="$BATS_TEST_TMPDIR/other.so" bs=1 seek=18 conv=notrunc status=none
	no_library "$BATS_TEST_TMPDIR/other.so" "other\.so"
}

# MESSAGE|OFFSET BYTES...: a library with these bytes is refused so.
damage_table() {
	cat <<-'END'
		is a 32-bit ELF file: only 64-bit ones can be probed|4 01
		is a big-endian ELF file|5 02
		is an object file, not linked|16 01
		is a core dump|16 04
		is not a library or program: ELF type 9|16 09
		is for another machine (ELF number 21): x86-64 or arm64 needed|18 15 00
		is damaged: section headers of 65 bytes|58 41
		is damaged: 1 program headers of 57 bytes|54 39 00 01 00
		is truncated: SIZE bytes, program headers at 1099511627776|32 00 00 00 00 00 01
		is truncated: SIZE bytes, section headers at 1099511627776|40 00 00 00 00 00 01
	END
}

@test "messages: a damaged library is refused with the reason" {
	local bad=$BATS_TEST_TMPDIR/bad.so message at bytes load size

	size=$(stat -Lc %s "$LIB")
	while IFS='|' read -r message bytes; do
		read -r at bytes <<<"$bytes"
		patch "$bad" "$at" "$bytes"
		fsn -s 1 attach g fix_add --lib "$bad" --dry-run
		assert_stderr "funcsnoop attach: '$bad' ${message/SIZE/$size}"
	done < <(damage_table)
	# The first PT_LOAD: its offset is at byte 8, its address at 16, its size at 32.
	load=$(($(LC_ALL=C readelf -lW "$LIB" | awk '/^  [A-Z]/ && $2 ~ /^0x/ { if ($1 == "LOAD") { print n + 0; exit } n++ }') * 56 + 64))
	if [[ $(uname -m) == x86_64 ]]; then
		patch "$bad" 18 "b7 00"
		fsn -s 1 attach g fix_add --lib "$bad" --dry-run
		assert_stderr "funcsnoop attach: '$bad' is for another architecture"
	fi
	patch "$bad" $((load + 8)) "00 00 00 00 00 01"
	fsn -s 1 attach g fix_add --lib "$bad" --dry-run
	assert_stderr_match "^funcsnoop attach: '$bad' is truncated: $size bytes, but a segment needs [0-9]+ at 1099511627776$"
	patch "$bad" $((load + 16)) "ff ff ff ff ff ff ff ff"
	fsn -s 1 attach g fix_add --lib "$bad" --dry-run
	assert_stderr "funcsnoop attach: '$bad' is damaged: a segment ends beyond all addresses"
}

# Copies the library to FILE, with BYTES (hexadecimal) at OFFSET.
patch() { # FILE OFFSET BYTES
	cp "$LIB" "$1"
	# shellcheck disable=SC2001	# each byte
	printf %b "$(sed "s/\([0-9a-f][0-9a-f]\) */\\\\x\1/g" <<<"$3")" |
		dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

@test "messages: an unusable configuration or preset is refused with the reason" {
	local dir=$BATS_TEST_TMPDIR

	cd "$dir" || return
	echo "{\"a_sym\":{\"f\":{\"symbol\":\"fix_add\",\"target\":\"s:read\"}},\"lib\":\"$LIB\"}" >both.json
	fsn -s 1 attach --config both.json --dry-run
	assert_stderr "funcsnoop attach: both.json:1:16: function 'f' has a symbol and a target"
	echo '{"types":{"t":{"base":"int","sizes":{"77":4}}},"a_sym":{"f":"fix_add"},"lib":"c"}' >sizes.json
	fsn -s 1 attach --config sizes.json --dry-run
	assert_stderr "funcsnoop attach: sizes.json:1:38: 'sizes' are of values below 16, a power of two of bytes up to 16384"
	echo '{"types":{"t":{"base":"int","size_at":8}},"a_sym":{"f":"fix_add"},"lib":"c"}' >size_at.json
	fsn -s 1 attach --config size_at.json --dry-run
	assert_stderr_match "^funcsnoop attach: size_at.json:1:[0-9]+: 'size_at' is of a pointer, 1 to 65535$"
	echo "{\"a_sym\":{\"f\":{\"symbol\":\"nosuch\",\"optional\":true}},\"lib\":\"$LIB\"}" >none.json
	fsn -s 1 attach --config none.json --dry-run
	assert_stderr_match "^funcsnoop attach: no function of group 'a' was found$"
	mkdir -p funcsnoop/presets/folder.json
	ln -s loop.json funcsnoop/presets/loop.json
	export XDG_CONFIG_HOME=$dir
	fsn -s 1 attach folder --dry-run
	assert_stderr_match "^funcsnoop attach: preset '$dir/funcsnoop/presets/folder.json' is not a regular file$"
	fsn -s 1 attach loop --dry-run
	assert_stderr_match "^funcsnoop attach: cannot open preset '$dir/funcsnoop/presets/loop.json': Too many levels of symbolic links$"
}

@test "messages: attach fails or warns with the reason" {
	local dir=$BATS_TEST_TMPDIR what

	need_bpf
	need_tool objcopy
	for what in user:uid==$(seq -s, 1 65) command:comm==$(seq -s, 1 65) CPU:cpu==$(seq -s, 0 4096); do
		fsn -s 1 attach g fix_add --lib "$LIB" --if "${what#*:}"
		assert_stderr_match "^funcsnoop attach: cannot attach group 'g': too many filters by ${what%%:*}$"
	done
	fsn -s 1 attach g fix_add --lib "$LIB" --if "cgroup==$dir/nosuch"
	assert_stderr_match "^funcsnoop attach: cannot attach group 'g': cannot open cgroup '$dir/nosuch': No such file or directory$"
	fsn -s 2 attach g fix_add --lib "$LIB" --by stack s:getppid
	assert_stderr_match "^funcsnoop attach: stacks of 'fix_add' and of 'getppid' begin in different places \(function, entry to the kernel, kernel\): use a group for each$"
	fsn -s 2 attach g t:sched:sched_switch..t:sched:sched_wakeup --by stack
	assert_stderr_match "^funcsnoop attach: --by stack: spans have no stacks \(\[tracepoints\]\)$"
	fsn -s 1 attach gpu --sample 1/7
	assert_stderr "funcsnoop attach: --sample of a GPU: '1/7' is not 1/N with N one of 1 2 3 4 5 6 8 10 12 15 20 30 60 120 300 600"

	fsn attach one fix_add --lib "$LIB"
	fsn attach two fix_add fix_ret --lib "$LIB"
	assert_stderr_match "^funcsnoop attach: 1 of the functions of 'two' is probed by group 'one', too: times of both are some 150 to 500 ns too long$"
	capture -s 1 bash -c '"$0" stats one --all >/dev/full' "$FUNCSNOOP"
	assert_stderr "funcsnoop stats: cannot write statistics: No space left on device"

	objcopy --redefine-sym fix_add=cudaMalloc "$LIB" "$dir/cuda.so"
	cp "$LIB" "$dir/libtorch_cpu.so"
	LD_PRELOAD=$dir/libtorch_cpu.so start_bg a "$FIX/call" --wait add 1
	wait_ready a
	start_bg b "$FIX/call" --wait add 1
	wait_ready b
	fsn attach cuda --lib "$dir/cuda.so" --with memory
	assert_stderr_match "^funcsnoop attach: not in the library: [0-9]+ of preset 'cuda', such as '__cudaLaunchKernel'$"
	assert_stderr_match "^funcsnoop attach: group 'cuda': PyTorch in process $(bg_pid a) takes memory in advance: what its tensors hold is seen by 'tensors'$"
	fsn -s 1 attach g f --lib nosuchlib --pid "$(bg_pid a)" --pid "$(bg_pid b)"
	assert_stderr "funcsnoop attach: none of 2 processes has a library 'nosuchlib' mapped"
	stop_bg -KILL a
	stop_bg -KILL b
	fsn detach --all
}

# --- functions --------------------------------------------------------------------------

@test "errors: a missing function is an error, with similar names" {
	fsn -s 1 attach g fix_ad --lib "$LIB" --dry-run
	assert_output_match "^fix_ad .* missing +no such symbol$"
	assert_stderr "funcsnoop attach: no function 'fix_ad' in $FIX/libfix.so.1
hint: did you mean 'fix_add'"
	fsn -s 1 attach g fix_add nosuchfunction --lib "$LIB" --dry-run --json
	assert_json .error "no function 'nosuchfunction' in $FIX/libfix.so.1"
	fsn -s 1 attach g 'nosuch*' --lib "$LIB" --dry-run
	assert_stderr_match "'nosuch\*'"
}

@test "errors: an IFUNC is refused with its name and the reason" {
	fsn -s 1 attach g fix_ifunc --lib "$LIB" --dry-run
	assert_stderr_match "^funcsnoop attach: function 'fix_ifunc' in .* can't be probed: an IFUNC: "
	fsn -s 1 attach g fix_add fix_ifunc --lib "$LIB" --dry-run --json
	assert_json '.error | test("fix_ifunc.*IFUNC")' true
}

@test "errors: a function with unsafe instructions is refused with its name and reason" {
	local f

	need_arch x86_64
	for f in asm_vmovq asm_vzeroupper asm_4190 asm_4990 asm_lock asm_loop asm_spin \
		asm_pushf; do
		fsn -s 1 attach g $f --lib "$FIX/libinsn.so" --dry-run
		assert_stderr_match "^funcsnoop attach: cannot probe '$f' in .*libinsn\.so: [a-z]"
	done
	# A glob leaves them out, with a reason each.
	fsn attach g 'asm_*' --lib "$FIX/libinsn.so" --dry-run --json
	assert_json '[.[0].functions[] | select(.refused) | [.name, (.refused | length > 10)]]
		| map(.[1]) | all' true
	assert_json '.[0].functions | map(select(.refused) | .name) | index("asm_vmovq") != null' true
}

@test "errors: a custom group requires functions, and functions a library" {
	fsn -s 1 attach g --lib "$LIB" --dry-run
	assert_stderr_match "^funcsnoop attach: no preset 'g'"
	fsn -s 1 attach g fix_add --dry-run
	assert_stderr_match "^funcsnoop attach: no library"
}

@test "errors: an invalid name of a group is refused" {
	local name

	for name in functions presets inflight help all -x .x ../x a/b 'a b' 'a~' ä '' \
		aaaaaaaaaabbbbbbbbbbccccccccccddd; do
		fsn -s 1 attach --lib "$LIB" --dry-run -- "$name" fix_add
		assert_output ""
		assert_stderr_match "^funcsnoop attach: "
		fsn -s 1 attach --name "$name" --lib "$LIB" --dry-run g fix_add
	done
	for name in a A 0 list a-b_c aaaaaaaaaabbbbbbbbbbccccccccccdd; do
		fsn attach --lib "$LIB" --dry-run "$name" fix_add
	done
}

@test "errors: --pid fails if the process does not exist" {
	fsn -s 1 attach g fix_add --lib fix --pid 4194304 --dry-run
	assert_stderr "funcsnoop attach: no process 4194304"
}

# --- privileges ---------------------------------------------------------------------------

as_nobody() { # ARG...
	capture -s 1 setpriv --reuid=65534 --clear-groups --inh-caps=-all "$FUNCSNOOP" "$@"
}

# bats test_tags=bpf
@test "errors: commands that need /proc report that it is not mounted" {
	need_bpf
	need_no_sanitizer
	fsn attach g fix_add --lib "$LIB"
	local args bare=(unshare --mount --propagation private bash -c
		'mount -t tmpfs t /proc && exec "$@"' bash "$FUNCSNOOP")
	while read -r args; do
		# shellcheck disable=SC2086	# several words
		capture -s 1 "${bare[@]}" $args
		assert_stderr_match ": /proc is not mounted$"
		refute_stderr_match "^hint:"
	done <<-END
		attach h fix_add --lib $LIB
		attach h fix_add --lib $LIB --link perf
		attach h fix_add --lib $LIB --pid 1
		attach h fix_add --lib libnosuch
		list functions g
		list inflight g
		stats g
		stream g -d 0.1
		set g --slow 1ms
		reset g
	END
	capture "${bare[@]}" list
	assert_output_match "cannot open group 'g': /proc is not mounted"
	capture "${bare[@]}" feature
	refute_output_match "No such file"
	refute_output_match "CAP_BPF +no"
	capture "${bare[@]}" detach g
	fsn list --json
	assert_json length 0
}

@test "errors: an unprivileged attach names the capabilities and leaves nothing" {
	need_bpf
	need_unprivileged "$LIB"
	as_nobody attach g fix_add --lib "$LIB"
	assert_output ""
	assert_stderr_match "^funcsnoop attach: cannot attach group 'g': .*(not permitted|denied)$"
	assert_stderr_match "^hint: needs .*sudo"
	as_nobody attach g fix_add --lib "$LIB" --json
	assert_json 'keys' '["error"]'
	[[ ! -d $FUNCSNOOP_BPFFS/funcsnoop/g ]]
	assert_eq "$(stat -c %u "$FUNCSNOOP_BPFFS/funcsnoop" 2>/dev/null || echo 0)" 0
}

# bats test_tags=bpf
@test "errors: unprivileged commands cannot read or change groups of other users" {
	local command

	need_bpf
	need_tool setpriv
	fsn attach g fix_add --lib "$LIB"
	for command in list stats "list inflight" "list functions g" reset "set g --slow 1ms" \
		"detach g" "detach --all"; do
		# shellcheck disable=SC2086	# several words
		as_nobody $command
		assert_output ""
		assert_stderr_match "^funcsnoop ${command%% *}: .*Permission denied$"
		assert_stderr_match "^hint: "
	done
	as_nobody stats --json
	assert_json 'keys' '["error"]'
	fsn list --json
	assert_json 'map(.name)' '["g"]'
	fsn detach g
}

# --- output -------------------------------------------------------------------------------

@test "errors: a command fails if its output cannot be written" {
	capture -s 1 bash -c '"$0" list presets >/dev/full' "$FUNCSNOOP"
	assert_stderr_match "^funcsnoop list: cannot write output: No space left on device$"
	capture -s 1 bash -c '"$0" help >/dev/full' "$FUNCSNOOP"
	capture -s 1 bash -c '"$0" --json version >/dev/full' "$FUNCSNOOP"
}

@test "color: only on terminals, or on request" {
	fsn list presets
	refute_output_match $'\e'
	NO_COLOR=1 fsn list presets
	refute_output_match $'\e'
}

# --- messages without a test ---------------------------------------------------------------

# MESSAGE|CAUSE: the messages whose text no test sees. CAUSE is one of
#	memory	no memory is left (57-faults: allocations that fail)
#	call	a system call on descriptors or maps of the command itself fails
#		(57-faults: system calls that fail)
#	race	another command or process changes something in a moment of some microseconds
#	damage	a group or file with contents that no command writes and no tool makes
#	kernel	a kernel without a facility, or a virtual machine without it
#	size	a file of more than 512 MiB
#	internal	a caller in the program makes a mistake
rare_table() {
	cat <<-'END'
		'%s' can't be used|race
		'%s' is locked by another command|race
		'%s' is too big|size
		'%s': a library is not looked up here|internal
		cannot attach a kprobe on '%s'|kernel
		cannot attach to a tracepoint|call
		cannot attach to page faults of process %d|call
		cannot attach to the clock of CPU %d|kernel
		cannot calibrate|call
		cannot change group '%s'|call
		cannot count entries|call
		cannot detach group '%s'|call
		cannot filter by %s|call
		cannot filter by cgroup '%s'|call
		cannot find system calls to be timed|kernel
		cannot find this program's own code|kernel
		cannot fold processes of group '%s'|call
		cannot follow children|call
		cannot follow more stacks of group '%s'|call
		cannot list '%s'|call
		cannot list probes|memory
		cannot list probes of '%s'|call
		cannot list processes|call
		cannot list tracepoints|call
		cannot load programs for a function of %s|call
		cannot load programs for a tracepoint|call
		cannot load programs: cannot map their switches|memory
		cannot lock group '%s'|call
		cannot look at processes|call
		cannot look at threads|call
		cannot look for members|call
		cannot make a buffer of %zu bytes|call
		cannot make a kprobe on '%s'|kernel
		cannot map '%s'|call
		cannot map the buffer|call
		cannot measure|call
		cannot name group '%s'|call
		cannot number %zu functions|call
		cannot open a tracepoint|call
		cannot open programs|call
		cannot open the disassembler for %s|call
		cannot open the directory of '%s'|call
		cannot pin '%s'|call
		cannot plan probes of '%s'|call
		cannot prepare for stacks|call
		cannot read .eh_frame of '%s'|call
		cannot read calls|call
		cannot read calls in progress of group '%s'|call
		cannot read group '%s'|call
		cannot read keys|call
		cannot read keys of group '%s'|call
		cannot read stacks of group '%s'|call
		cannot read the filter by %s|call
		cannot read tracepoint '%s:%s'|call
		cannot read types of group '%s'|call
		cannot read what was measured|call
		cannot remove '%s/%s'|call
		cannot remove group '%s'|call
		cannot replace group '%s'|call
		cannot run the command|call
		cannot show statistics|call
		cannot start a thread|call
		cannot stat preset '%s'|call
		cannot sweep group '%s'|call
		cannot take %u samples a second of CPU %d|kernel
		cannot time system calls|call
		cannot use uprobe events|kernel
		cannot wait for libraries|call
		cannot watch over the group|call
		cannot watch page faults of process %d|call
		cannot watch process %d|call
		cannot watch what is loaded|call
		cannot write code ranges|call
		cannot write down the probes|call
		cannot write the group's description|call
		cannot write the table of system calls|call
		cannot write to the terminal|call
		cannot write where arguments are|call
		cannot write where jumps lead|call
		group '%s' holds no process|race
		group '%s' is being changed|race
		group '%s' is damaged: its counts|damage
		probe site of '%s' is outside the file|damage
		process %d has ended before it began|race
		the kernel can't trace all of these %zu functions|kernel
	END
}

@test "messages: each has a test, or a reason in the table" {
	local message cause

	need_tool python3
	capture "$BATS_TEST_DIRNAME/messages-check"
	assert_output ""
	while IFS='|' read -r message cause; do
		[[ $cause =~ ^(memory|call|race|damage|kernel|size|internal)$ ]] || fail "$message: $cause"
		grep -rqF -e "$message" "$BATS_TEST_DIRNAME/../cmd" "$BATS_TEST_DIRNAME/../lib" ||
			fail "no such message: $message"
	done < <(rare_table)
}
