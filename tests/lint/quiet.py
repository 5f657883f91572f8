#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""quiet.py LIB CC ARCHIVE...: nothing in the archives prints, ends the process, sends or handles
signals, starts programs, changes the environment or starts MPI. Read from the undefined symbols of
their objects, which no macro and no wrapper hides; then faults are planted, and each must be found."""
import os
import re
import subprocess
import sys
import tempfile

FORBIDDEN = {
    "prints": r"(__)?(v|f|d|vf|vd|w|fw|vw|vfw)?printf(_chk)?|_?IO_put[cs]|f?put[sc](_unlocked)?|f?putwc|f?putws|putw?char"
              r"(_unlocked)?|fwrite(_unlocked)?|stdout|stderr|perror|psignal|psiginfo|p?writev?(64)?(v2)?|v?syslog"
              r"|(__v?syslog_chk)|v?(err|warn)x?|error(_at_line)?|send(to|msg)?|fputwc_unlocked",
    "ends the process": r"_?exit|_Exit|quick_exit|abort|__assert(_perror)?(_fail)?|(__cxa_)?atexit|at_quick_exit|on_exit"
                        r"|(sig)?longjmp|__longjmp_chk|MPI_Abort",
    "sends or handles signals": r"raise|kill(pg)?|t(g)?kill|pthread_kill|pthread_sig(mask|queue)|(bsd_|sys)?v?_?signal"
                                r"|__sysv_signal|sig(action|procmask|set|queue|suspend|altstack|wait(info)?)|alarm"
                                r"|setitimer|timer_create",
    "starts programs": r"fork|vfork|exec(v|ve|vp|vpe|l|le|lp)|fexecve|system|popen|posix_spawnp?|clone|daemon",
    "changes what the process shares": r"(un)?setenv|putenv|clearenv|setlocale|uselocale|chdir|fchdir|umask|setrlimit"
                                       r"|srand(om)?|MPI_Init(_thread)?|MPI_Finalize",
    "could be any of these": r"syscall",
}

# (object, symbol): why it may, and a pattern that no line of its source with that call may match.
ALLOWED = {
    ("cache.c.o", "write"): ("an entry of the kernels' cache, into the file that was made for it",
                             r"\bwrite\((\d|STD)"),
    ("cache.c.o", "kill"): ("asks with signal 0 whether the process that began an entry still lives",
                            r"\bkill\((?!.*, 0\))"),
    ("seats.c.o", "syscall"): ("waits for a rank of this host, and wakes it: futex",
                                r"\bsyscall\((?!SYS_futex)"),
}

PLANTED = {
    "printf": "#include <stdio.h>\nvoid f(int i) { printf(\"%d\", i); }",
    "puts, which was printf": "#include <stdio.h>\nvoid f(void) { printf(\"x\\n\"); }",
    "a pointer to puts": "#include <stdio.h>\nint (*f(void))(const char *) { return puts; }",
    "stderr": "#include <stdio.h>\nvoid f(void) { fputs(\"x\", stderr); }",
    "perror": "#include <stdio.h>\nvoid f(void) { perror(\"x\"); }",
    "write": "#include <unistd.h>\nlong f(void) { return write(2, \"x\", 1); }",
    "exit": "#include <stdlib.h>\nvoid f(void) { exit(1); }",
    "_exit": "#include <unistd.h>\nvoid f(void) { _exit(1); }",
    "abort": "#include <stdlib.h>\nvoid f(void) { abort(); }",
    "assert": "#undef NDEBUG\n#include <assert.h>\nvoid f(int i) { assert(i); }",
    "raise": "#include <signal.h>\nvoid f(void) { raise(SIGTERM); }",
    "signal": "#include <signal.h>\nvoid f(void) { signal(SIGINT, SIG_IGN); }",
    "setenv": "#define _GNU_SOURCE\n#include <stdlib.h>\nvoid f(void) { setenv(\"A\", \"b\", 1); }",
    "system": "#include <stdlib.h>\nint f(void) { return system(\"true\"); }",
}


def forbidden(symbol):
    """What a symbol stands for, or None."""
    for what, names in FORBIDDEN.items():
        if re.fullmatch(names, symbol):
            return what
    return None


def undefined(path):
    """Pairs of an object and a symbol that it needs."""
    lines = subprocess.run(["nm", "-A", "-u", path], check=True, capture_output=True, text=True).stdout
    for line in lines.splitlines():
        found = re.match(r"(.*):\s+[Uw] (\w+)", line)
        if found:
            yield os.path.basename(found.group(1).rsplit(":", 1)[-1]), found.group(2)


def source_of(lib, member):
    """The text of the file that an object was made from."""
    name = member.removesuffix(".o")
    found = [os.path.join(folder, name) for folder, _, files in os.walk(lib) if name in files]
    text = ""
    for path in found:
        with open(path, encoding="utf-8") as file:
            text += file.read()
    return text


def check(lib, archives):
    """Number of faults."""
    bad, used, symbols = 0, set(), 0
    for archive in archives:
        for member, symbol in undefined(archive):
            symbols += 1
            what = forbidden(symbol)
            if not what:
                continue
            reason = ALLOWED.get((member, symbol))
            if reason and not re.search(reason[1], source_of(lib, member)):
                used.add((member, symbol))
                continue
            print(f"{archive}: {member} needs {symbol}: {what}")
            bad += 1
    for member, symbol in ALLOWED.keys() - used:
        print(f"{member} no longer needs {symbol}: take it off the list of the allowed")
        bad += 1
    print(f"{symbols} symbols of {len(archives)} archives, {len(used)} allowed, {bad} faults")
    return bad + (symbols < 100)


def check_planted(compiler):
    """Number of planted faults that are not found."""
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, text in PLANTED.items():
            source, built = os.path.join(folder, "cache.c"), os.path.join(folder, "planted.c.o")
            with open(source, "w", encoding="utf-8") as file:
                file.write(text + "\n")
            subprocess.run([compiler, "-O2", "-c", source, "-o", built], check=True)
            if not any(forbidden(symbol) for _, symbol in undefined(built)):
                print(f"not found: {name}")
                missed += 1
    return missed


def main():
    lib, compiler, archives = sys.argv[1], sys.argv[2], sys.argv[3:]
    sys.exit(1 if check(lib, archives) + check_planted(compiler) else 0)


main()
