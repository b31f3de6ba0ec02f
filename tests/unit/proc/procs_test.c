// SPDX-License-Identifier: BSD-2-Clause
// Mappings of processes, read once.
#include <errno.h>
#include <string.h>

#include "proc/proc.h"
#include "../scratch.h"
#include "../tap.h"

#define LINE(path) "400000-401000 r-xp 00000000 08:01 7 " path "\n"

static void write_maps(const char *text)
{
	scratch_file("12/maps", text, strlen(text));
}

static void test_once(struct procs *p)
{
	const struct proc_maps *maps = NULL, *again = NULL;

	is_int(procs_maps(p, 12, &maps, NULL), 0, "what a process maps is read");
	is_str(maps->cnt ? maps->maps[0].path : NULL, "/first", "as it is then");
	write_maps(LINE("/second"));
	is_int(procs_maps(p, 12, &again, NULL), 0, "and is there when asked again");
	ok(again == maps, "as it was: the file is not read a second time");
}

static void test_errors(struct procs *p)
{
	const struct proc_maps *maps;
	struct err first = { 0 }, again = { 0 };

	is_int(procs_maps(p, 11, &maps, &first), -ESRCH, "a process that is not there is told");
	scratch_run("mkdir 11 && cp 12/maps 11/maps");
	is_int(procs_maps(p, 11, &maps, &again), -ESRCH, "and is not looked for again");
	is_str(again.msg, first.msg, "in the same words");
	is_int(procs_maps(p, 11, &maps, NULL), -ESRCH, "or in none");
}

static void test_pids(struct procs *p)
{
	const pid_t *pids = NULL;
	size_t cnt = 0;

	is_int(procs_pids(p, &pids, &cnt, NULL), 0, "processes are listed");
	is_int(cnt, 2, "all of them");
	scratch_run("mkdir 13");
	is_int(procs_pids(p, &pids, &cnt, NULL), 0, "and are when asked again");
	is_int(cnt, 2, "those of the first time");
}

/* The file of a mapping by its path, where the process gives no map_files. */
static void test_another_file(void)
{
	struct proc_map map = { .ino = 1, .path = "/file" };
	struct err err = { 0 };

	scratch_run("mkdir -p 14/root && echo > 14/root/file");
	is_int(proc_open_mapped(scratch_dir, 14, &map, &err), -ESRCH,
		"the file of a process that has exited is not called another one");
	is_str(err.msg, "process 14 has exited", "that is said instead");
	scratch_file("14/stat", "14 (a) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0", 51);
	is_int(proc_open_mapped(scratch_dir, 14, &map, NULL), -ESTALE,
		"another file than the one that is mapped is told");
}

int main(void)
{
	_cleanup_procs_ struct procs *p = NULL;

	scratch_begin();
	scratch_run("mkdir 12");
	write_maps(LINE("/first"));
	p = procs_new(scratch_dir);
	test_once(p);
	test_errors(p);
	test_pids(p);
	if (scratch_has_openat2("the file of a mapping"))
		test_another_file();
	return tap_done();
}
