# A line per kernel of what ptxas -v says: architecture, kernel, registers, shared bytes, spilled
# bytes. It fails if a kernel spills, or if the assembler complains.
/error|fatal/ { print; bad = 1 }
/Compiling entry function/ { match($0, /'[^']*'/); kernel = substr($0, RSTART + 1, RLENGTH - 2); arch = $1 }
/bytes stack frame/ {
  for (i = 2; i <= NF; i++) if ($i == "bytes" && $(i + 1) == "spill") spill += $(i - 1)
}
/Used [0-9]+ registers/ {
  regs = shared = 0
  for (i = 2; i <= NF; i++) {
    if ($i ~ /^registers/) regs = $(i - 1)
    if ($i == "bytes" && $(i + 1) ~ /^smem/) shared = $(i - 1)
  }
  printf "%s %-18s %3d registers %6d bytes shared %4d spilled\n", arch, kernel, regs, shared, spill
  if (spill > 0) bad = 1
  spill = 0
}
END { exit bad }
