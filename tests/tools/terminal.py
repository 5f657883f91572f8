# SPDX-License-Identifier: Apache-2.0
"""terminal.py ERR [--interrupt] COMMAND...: runs COMMAND on a terminal of its own, 100 columns wide,
as the foreground job. What the terminal shows goes to standard output. ERR: "-" if standard error is
the terminal too, else a file. --interrupt: types Ctrl-C once text has come. Ends with its code."""
import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time

err, command = sys.argv[1], sys.argv[2:]
interrupt = command[0] == "--interrupt"
command = command[interrupt:]
child, terminal = pty.fork()
if child == 0:
    if err != "-":
        os.dup2(os.open(err, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
    time.sleep(0.1)
    os.execvp(command[0], command)
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
shown = b""
deadline = time.time() + 120
while time.time() < deadline:
    if terminal not in select.select([terminal], [], [], 0.1)[0]:
        continue
    try:
        piece = os.read(terminal, 65536)
    except OSError:
        break
    if not piece:
        break
    shown += piece
    # the last thing that the progress bar does is to wipe its line
    if interrupt and len(shown.rpartition(b"\033[K")[2]) > 20:
        os.write(terminal, b"\x03")
        interrupt = False
sys.stdout.buffer.write(shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
