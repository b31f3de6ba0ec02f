// SPDX-License-Identifier: BSD-2-Clause
// Finding libraries: by name, cache, directory, and mappings of processes.
#include "find/find.h"

#include <sys/sysmacros.h>

#include "find/internal.h"
#include "proc/proc.h"
#include "scratch.h"
#include "tap.h"

static void test_names(void)
{
	static const struct {
		const char *lib, *file;
		bool match;
	} cases[] = {
		{ "cudart", "libcudart.so", true },
		{ "cudart", "libcudart.so.13", true },
		{ "cudart", "libcudart.so.13.0.48", true },
		{ "cudart", "libcudart-80664282.so.10.2", true },
		{ "cudart", "libcudart-80664282.so", true },
		{ "cudart", "libcudart-3ab2c1.so.12", true },
		{ "libcudart", "libcudart.so.13", true },
		{ "libcudart.so", "libcudart.so.13", true },
		{ "libcudart.so", "libcudart-80664282.so.13", true },
		{ "libcudart.so.13", "libcudart.so.13", true },
		{ "libcudart.so.13", "libcudart.so.13.0.48", true },
		{ "libcudart.so.13", "libcudart-80664282.so.13", true },
		{ "libcudart.so.13", "libcudart.so.12", false },
		{ "libcudart.so.1", "libcudart.so.13", false },
		{ "libcudart.so.13", "libcudart.so", false },
		{ "cudart", "libcudart_static.so", false },
		{ "cudart", "libcudart2.so", false },
		{ "cudart", "libcudart.so.bak", false },
		{ "cudart", "libcudart.so.13-old", false },
		{ "cudart", "libcudart-debug.so", false },
		{ "cudart", "libcudart-1234.so", false },
		{ "cudart", "cudart.so", false },
		{ "c", "libc.so.6", true },
		{ "c", "libcap.so.2", false },
		{ "c", "libc-2.31.so", false },
		{ "stdc++", "libstdc++.so.6.0.30", true },
		{ "cublas", "libcublasLt.so.13", false },
		{ "_C.so", "_C.so", true },
		{ "ld-linux-x86-64.so.2", "ld-linux-x86-64.so.2", true },
		{ "lib", "liblib.so", true },
		{ "a.sock", "liba.sock.so", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct lib_query q;

		lib_query_parse(cases[i].lib, &q);
		ok(lib_query_matches(&q, cases[i].file) == cases[i].match,
			"'%s' %s %s", cases[i].lib,
			cases[i].match ? "means" : "does not mean", cases[i].file);
		lib_query_done(&q);
	}
}

static void build(void)
{
	static const char lib[] = "int f(void) { return 1; }\n";
	static const char prog[] = "int main(void) { return 0; }\n";

	scratch_file("l.c", lib, strlen(lib));
	scratch_file("m.c", prog, strlen(prog));
	scratch_run(
		"cc -g0 -shared -fPIC -Wl,-soname,libone.so.1 l.c -o libone.so.1.2.3 && "
		"cc -g0 -shared -fPIC -Wl,-soname,libone.so.2 l.c -o libone.so.2 && "
		"cc -g0 -pie -fPIE m.c -o prog");
}

/* One entry of an ld.so.cache; the strings follow the entries. */
struct cache {
	uint8_t bytes[4096];
	uint32_t cnt;
	size_t strings;
};

static void cache_add(struct cache *c, const char *key, const char *value, uint32_t flags)
{
	uint32_t *e = (uint32_t *)(c->bytes + 48 + 24 * c->cnt++);

	e[0] = flags;
	e[1] = c->strings;
	strcpy((char *)c->bytes + c->strings, key);
	c->strings += strlen(key) + 1;
	e[2] = c->strings;
	strcpy((char *)c->bytes + c->strings, value);
	c->strings += strlen(value) + 1;
}

static void build_root(void)
{
#ifdef __x86_64__
	const uint32_t native = 0x303, foreign = 0xa03;
#else
	const uint32_t native = 0xa03, foreign = 0x303;
#endif
	struct cache c = { .strings = 1024 };

	scratch_run(
		"mkdir -p root/etc root/opt/a root/usr/lib root/usr/local/cuda-9/lib64 "
		"root/usr/bin root/opt/b && cp libone.so.1.2.3 root/opt/a/ && "
		"cp libone.so.1.2.3 root/opt/b/libone.so.1 && "
		"ln -s libone.so.1.2.3 root/opt/a/libone.so.1 && "
		"ln -s ../../opt/a/libone.so.1 root/usr/lib/libone.so && "
		"cp libone.so.2 root/usr/local/cuda-9/lib64/ && "
		"echo '/* GNU ld script */ GROUP ( libtwo.so.1 )' > root/usr/lib/libtwo.so && "
		"cp prog root/usr/bin/prog");
	cache_add(&c, "libone.so.1", "/opt/a/libone.so.1", native);
	cache_add(&c, "libone.so.1", "/opt/none/libone.so.1", native);
	cache_add(&c, "libone.so.1", "/opt/b/libone.so.1", foreign);
	cache_add(&c, "libgone.so.1", "/opt/a/libgone.so.1", native);
	memcpy(c.bytes, "glibc-ld.so.cache1.1", 20);
	memcpy(c.bytes + 20, &c.cnt, 4);
	scratch_file("root/etc/ld.so.cache", c.bytes, sizeof(c.bytes));
}

/* "path [how]" of all files found, one a line, or the error and its hint. */
static const char *find(const pid_t *pids, size_t pid_cnt, const char *lib)
{
	static char text[8192];
	char root[2 * PATH_MAX], proc[2 * PATH_MAX];
	struct libfind_opts opts = {
		.pids = pids, .pid_cnt = pid_cnt, .root = root, .proc = proc
	};
	_cleanup_libfind_ struct libfind *lf = NULL;
	__cleanup(objects_done) struct objects files = { 0 };
	struct err err = { 0 };
	size_t at = 0;

	snprintf(root, sizeof(root), "%s/root", scratch_dir);
	snprintf(proc, sizeof(proc), "%s/proc", scratch_dir);
	lf = libfind_new(&opts);
	if (libfind_get(lf, lib, &files, &err)) {
		snprintf(text, sizeof(text), "%s%s%s", err.msg, err.hint[0] ? "; " : "",
			err.hint);
		return text;
	}
	text[0] = '\0';
	for (size_t i = 0; i < files.cnt; i++) {
		const char *path = files.object[i]->path;
		size_t len = strlen(scratch_dir);

		if (strncmp(path, scratch_dir, len) == 0)
			path += len;
		at += snprintf(text + at, sizeof(text) - at, "%s%s [%s]", i ? "\n" : "",
			path, files.object[i]->found_how);
	}
	return text;
}

static void test_places(void)
{
	scratch_run("mkdir -p proc");
	is_str(find(NULL, 0, "libone.so.1"), "/root/opt/a/libone.so.1.2.3 [ld.so.cache]",
		"a soname is found by the cache, where its links lead");
	is_str(find(NULL, 0, "one"),
		"/root/opt/a/libone.so.1.2.3 [ld.so.cache]\n"
		"/root/usr/local/cuda-9/lib64/libone.so.2 [well-known directory]",
		"a stem finds every version, each file once");
	setenv("PATH", "/sbin", 1);
	is_str(find(NULL, 0, "prog"), "no library or program 'prog'",
		"a program that is not in PATH is not found");
	setenv("PATH", "/sbin:/usr/bin", 1);
	is_str(find(NULL, 0, "prog"), "/root/usr/bin/prog [PATH]", "one in PATH is");
	is_str(find(NULL, 0, "libone.so.3"),
		"no library or program 'libone.so.3'; did you mean 'libone.so.1' in /opt/a "
		"or 'libone.so.2' in /usr/local/cuda-9/lib64",
		"another version is suggested");
	is_str(find(NULL, 0, "onne"),
		"no library or program 'onne'; did you mean 'one' in /opt/a",
		"a near stem is suggested");
	is_str(find(NULL, 0, "two"), "no library or program 'two'",
		"a linker script is not a library");
	setenv("LD_LIBRARY_PATH", "relative:/opt/a:/nowhere", 1);
	is_str(find(NULL, 0, "libone.so.1.2"),
		"/root/opt/a/libone.so.1.2.3 [LD_LIBRARY_PATH]",
		"LD_LIBRARY_PATH is looked through");
	unsetenv("LD_LIBRARY_PATH");
	is_str(find(NULL, 0, ""), "the name of a library is empty",
		"no name is an error");
	ok(strstr(find(NULL, 0, scratch("l.c")), "is not an ELF file"),
		"a path to something else is an error that says so");
	ok(strstr(find(NULL, 0, scratch("root/usr/bin/prog")),
		   "/root/usr/bin/prog [path]"),
		"a path is taken");
}

static void test_bad_cache(void)
{
	size_t size;
	uint8_t *good = scratch_read(scratch("root/etc/ld.so.cache"), &size), *bad;

	bad = malloc(size);
	for (size_t at = 0; at < 48 + 4 * 24; at += 4) {
		memcpy(bad, good, size);
		memset(bad + at, 0xff, 4);
		scratch_file("root/etc/ld.so.cache", bad, size);
		find(NULL, 0, "libone.so.1");
	}
	for (size_t cut = 0; cut < 200; cut++) {
		scratch_file("root/etc/ld.so.cache", good, cut);
		find(NULL, 0, "libone.so.1");
	}
	scratch_file("root/etc/ld.so.cache", good, size);
	is_str(find(NULL, 0, "libone.so.1"), "/root/opt/a/libone.so.1.2.3 [ld.so.cache]",
		"broken caches did no harm");
	free(good);
	free(bad);
}

/* A line of maps for a file below a fake process's root. */
static void add_map(int pid, unsigned int n, const char *file, const char *shown)
{
	char path[PATH_MAX];
	struct stat st = { 0 };
	FILE *f;

	snprintf(path, sizeof(path), "proc/%d/root%s", pid, file);
	if (stat(scratch(path), &st) < 0)
		st.st_ino = 4711;
	snprintf(path, sizeof(path), "proc/%d/maps", pid);
	f = fopen(scratch(path), "a");
	fprintf(f, "%x000-%x000 r--p 00000000 %02x:%02x %lu %s%s\n", n, n + 1,
		major(st.st_dev), minor(st.st_dev), (unsigned long)st.st_ino, "   ",
		shown);
	fprintf(f, "%x000-%x000 r-xp 00001000 %02x:%02x %lu %s%s\n", n + 1, n + 2,
		major(st.st_dev), minor(st.st_dev), (unsigned long)st.st_ino, "   ",
		shown);
	fclose(f);
}

static void build_procs(void)
{
	scratch_run(
		"mkdir -p proc/12/root/lib proc/12/map_files proc/13/root/lib proc/14 "
		"proc/self proc/12/root/bin && cp libone.so.2 proc/12/root/lib/ && "
		"cp libone.so.1.2.3 proc/12/root/lib/libone-real.so && "
		"cp prog proc/12/root/bin/prog && cp libone.so.2 secret.so && "
		"ln -s /lib/libone.so.2 proc/12/root/lib/link.so && "
		"ln -s %s/secret.so proc/13/root/lib/libevil.so && "
		"mkfifo proc/13/root/lib/libpipe.so && "
		"cp libone.so.2 proc/13/root/lib/libswap.so && : > proc/14/maps && "
		"echo '13 (a) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0' > proc/13/stat",
		scratch_dir);
	add_map(12, 0x10, "/lib/libone.so.2", "/lib/libone.so.2");
	add_map(12, 0x20, "/lib/libone-real.so", "/lib/libone-real.so");
	add_map(12, 0x30, "/bin/prog", "/bin/prog");
	add_map(12, 0x40, "/lib/gone", "/lib/libgone.so (deleted)");
	add_map(13, 0x10, "/lib/libevil.so", "/lib/libevil.so");
	add_map(13, 0x20, "/lib/libpipe.so", "/lib/libpipe.so");
	add_map(13, 0x30, "/lib/other", "/lib/libswap.so");
	scratch_run("ln -s %s/libone.so.2 proc/12/map_files/41000-42000", scratch_dir);
}

static void test_processes(void)
{
	const pid_t p12 = 12, p13 = 13, none = 99, both[] = { 12, 13 };

	is_str(find(&p12, 1, "libone.so.2"),
		"/lib/libone.so.2 (pid 12's namespace) "
		"[mapped by pid 12]",
		"a mapped library is found below the process's root");
	is_str(find(&p12, 1, "libone.so.1"),
		"/lib/libone-real.so (pid 12's namespace) "
		"[mapped by pid 12]",
		"by its soname, when its file is called otherwise");
	is_str(find(&p12, 1, "gone"),
		"/lib/libgone.so (deleted, mapped by pid 12) "
		"[mapped by pid 12]",
		"a deleted one by map_files");
	is_str(find(&p12, 1, "prog"), "/bin/prog (pid 12's namespace) [mapped by pid 12]",
		"a program by its name");
	is_str(find(&p12, 1, "/lib/link.so"),
		"/lib/link.so (pid 12's namespace) "
		"[path, mapped]",
		"a path through an absolute link stays below the root");
	is_str(find(both, 2, "one"),
		"/lib/libone-real.so (pid 12's namespace) [mapped by pid 12]\n"
		"/lib/libone.so.2 (pid 12's namespace) [mapped by pid 12]",
		"several processes are looked at");
	ok(strstr(find(&p13, 1, "evil"), "No such file"),
		"a link out of the root leads nowhere");
	ok(strstr(find(&p13, 1, "pipe"), "is not a regular file"), "a FIFO does nothing");
	ok(strstr(find(&p13, 1, "swap"), "is not the file that process 13 has mapped"),
		"a file that was replaced is not taken for the mapped one");
	is_str(find(&p13, 1, "one"), "process 13 has no library 'one' mapped",
		"a library that it has not mapped is not found");
	is_str(find(&none, 1, "one"), "no process 99", "no process is an error");
	ok(strstr(find(NULL, 0, "one"), "/lib/libone-real.so (pid 12's namespace)"),
		"without a process, all processes' copies are found");
}

/* Only regular files are opened, because opening a device can have side effects. */
static void test_special_files(void)
{
	pid_t pid = 13;
	_cleanup_close_ int root = proc_open_root(scratch("proc"), pid, NULL);
	_cleanup_close_ int fd = -1;
	struct err err;

	is_int(proc_open_in_root(root, "/lib/libpipe.so", 0, &err), -EINVAL,
		"a FIFO is not opened");
	is_int(proc_open_in_root(root, "/lib", 0, &err), -EINVAL, "nor is a folder");
	is_int(proc_open_in_root(root, "/../../../etc/passwd", 0, &err), -ENOENT,
		"'..' does not leave the root");
	fd = proc_open_in_root(root, "../lib/libswap.so", 0, &err);
	ok(fd >= 0, "a regular file is opened");
}

static void test_proc_self(void)
{
	_cleanup_proc_maps_ struct proc_maps maps = { 0 };
	_cleanup_free_ char *self = realpath("/proc/self/exe", NULL);
	bool found = false, once = true;
	struct err err;

	is_int(proc_maps_read("/proc", getpid(), &maps, &err), 0,
		"own mappings are read");
	for (size_t i = 0; i < maps.cnt; i++) {
		if (strcmp(maps.maps[i].path, self) == 0)
			found = maps.maps[i].exec;
		for (size_t k = 0; k < i; k++)
			once &= maps.maps[i].ino != maps.maps[k].ino;
	}
	ok(found, "the test itself is among them, and executable");
	ok(once, "every file is there once");
	ok(proc_same_mnt_ns("/proc", getpid()), "its mount namespace is the test's");
}

int main(void)
{
	scratch_begin();
	unsetenv("LD_LIBRARY_PATH");
	setenv("TMPDIR", scratch_dir, 1);
	test_names();
	build();
	build_root();
	test_places();
	test_bad_cache();
	build_procs();
	if (scratch_has_openat2("libraries of processes")) {
		test_processes();
		test_special_files();
	}
	test_proc_self();
	return tap_done();
}
