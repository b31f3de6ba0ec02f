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

@test "without a command the usage goes to stderr, with status 2" {
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

@test "help shows every command, and each has a page of its own" {
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
	fsn -s 2 --json stat
	assert_json .error 'unknown command '\''stat'\''; did you mean '\''stats'\''?'
	fsn -s 2 help xyzzy
	assert_stderr_match "unknown command 'xyzzy'"
	assert_stderr_match "^hint: 'funcsnoop help' shows the usage$"
}

@test "an unknown option is wrong usage, for every command" {
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
		stream --format=|--format|text, json or chrome
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
@test "with --json every failure of every command is one valid JSON object" {
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

@test "-d is --debug before the command" {
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

@test "a file that is no library is refused with its reason" {
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

@test "a file that was cut anywhere is refused or probed, and never crashes" {
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

@test "a 32-bit library is refused by name" {
	printf '\x7fELF\x01\x01\x01' >"$BATS_TEST_TMPDIR/small.so"
	head -c 200 /dev/zero >>"$BATS_TEST_TMPDIR/small.so"
	no_library "$BATS_TEST_TMPDIR/small.so" "32"
	if echo 'int f(void) { return 1; }' |
		cc -m32 -shared -nostdlib -x c - -o "$BATS_TEST_TMPDIR/real.so" 2>/dev/null; then
		no_library "$BATS_TEST_TMPDIR/real.so" "32"
	fi
}

@test "a library of another machine is refused by name" {
	# e_machine, at byte 18, says PowerPC.
	cp "$FIX/libfix.so.1" "$BATS_TEST_TMPDIR/other.so"
	printf '\x15\x00' | dd of="$BATS_TEST_TMPDIR/other.so" bs=1 seek=18 conv=notrunc status=none
	no_library "$BATS_TEST_TMPDIR/other.so" "other\.so"
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

@test "an IFUNC is refused by its name, with the reason" {
	fsn -s 1 attach g fix_ifunc --lib "$LIB" --dry-run
	assert_stderr_match "^funcsnoop attach: function 'fix_ifunc' in .* can't be probed: an IFUNC: "
	fsn -s 1 attach g fix_add fix_ifunc --lib "$LIB" --dry-run --json
	assert_json '.error | test("fix_ifunc.*IFUNC")' true
}

@test "instructions that must not be probed are refused by the function's name" {
	local f

	need_arch x86_64
	for f in asm_vmovq asm_vzeroupper asm_4190 asm_4990 asm_lock asm_loop asm_spin; do
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

@test "names that are no group's are refused" {
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

@test "a pid that is no process is an error" {
	fsn -s 1 attach g fix_add --lib fix --pid 4194304 --dry-run
	assert_stderr "funcsnoop attach: no process 4194304"
}

# --- privileges ---------------------------------------------------------------------------

as_nobody() { # ARG...
	capture -s 1 setpriv --reuid=65534 --clear-groups --inh-caps=-all "$FUNCSNOOP" "$@"
}

# bats test_tags=bpf
@test "without /proc each command that needs it names that cause" {
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
@test "without privilege the groups of others are not read, and nothing is changed" {
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

@test "output that cannot be written is an error" {
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
