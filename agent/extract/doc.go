// Package extract unpacks hostile archives. It is the only place in the
// project that opens one, and it runs inside the walls.
//
// A refused archive is an answer about the artifact: a *RefusalError that
// names the entry and the rule. Everything else that goes wrong (no space, a
// fault of the medium, a cancelled context) is a failure of ours and never
// looks like a refusal. The rules are the constants of rules.go.
//
// # What a scanner must see
//
// A scanner should see a superset of what any installer would write. So where
// two readers of a format in use would find different entries, or different
// bytes in one, the archive is refused rather than read one way; where an
// entry can be kept it is, if need be under another name; and whatever is left
// out carries no content. Each deviation is counted and the first
// wire.NoteCountCap are named in Report. Owners, times and extended attributes
// are not restored, exec bits are always dropped; that is the same for every
// entry and not noted.
//
//   - Refused: names that are absolute, climb, or hold a NUL or a backslash;
//     devices, FIFOs, sockets; sparse files; symbolic links that lead out of
//     the archive's directory, alone or through each other; entries below a
//     symbolic link; hard links to anything but a file extracted before;
//     unknown tar types; a file whose name ends in a slash; encrypted members;
//     a tar header that some reader in use passes over, to go on in its content.
//   - Renamed: names with control characters or stray bytes (%XX); by the
//     policy's default the second of two entries of one name, and one that
//     differs by letter case or Unicode form alone (name~2.ext: the ending is
//     kept because scanners choose by it); names that belong to the agent.
//   - Left out: absolute symbolic links, which system packages are full of;
//     hard links of a name to itself; volume labels and global headers.
//   - Kept as text: symbolic links of a zip to nowhere or to an absolute
//     place. Most installers of zips know no links and write the target's text
//     as a file, so that "import evil" may be a link's target and a program.
//   - Noted: entries of a tar that only a reader that drops the first component
//     of every name, as npm does, would write in each other's place.
//   - Never replaced, whatever the policy: a directory by anything else, and
//     what no archive made.
//
// # Formats
//
// A format is told by content, never by name: tar (v7, ustar, PAX, GNU) bare or
// in gzip, bzip2, xz or zstd; zip; ar as a deb is. A file that is two formats
// at once, above all one that ends as a zip within reach of a reader that
// looks from the end, is refused as a polyglot. A compressed stream that holds
// no tar is refused as unknown: one layer is unpacked, and the manifest asks for
// another by wire.Nested. The inner archive is removed once its content stands
// unpacked, and one that is asked for and missing is a refusal.
//
// Compressed streams are read to their end, all gzip members, xz streams and
// zstd frames. Zeros may follow a gzip and a tar; anything else behind an end
// is refused, and so is a tar that goes on behind its end marker.
//
// # Why our own walks
//
// archive/tar and archive/zip are made to read what writers meant. They let
// pass exactly what this package exists to refuse: PAX sizes against the
// header's, two long names for one entry, zip headers that contradict each
// other, members that overlap or lie in gaps, and end records in comments; and
// they hand out none of what is needed to notice. The tar walk here reads 512
// bytes at a time and refuses a header with two meanings. The zip walk demands
// that local headers, contents and descriptors tile the file from its first
// byte to the central directory, so that a reader that streams finds the same
// members as one that starts from the end.
//
// # Why nothing gets out
//
// The caller's os.Root opens the work directory. From there every directory is
// opened by one component, relative to its parent's descriptor, following no
// link; every file is created new, never opened; and symbolic links are made
// when all files of their archive stand, after all of the run's links were
// followed together as the kernel would. One type, tree, makes, links and
// removes everything, for files, directories, links and hard links alike.
//
// # Limits
//
// Every limit of wire.ExtractPolicy is checked before what it speaks of is
// allocated or written. Beyond them: directories that no entry names are
// limited like entries; a stream may not be longer than all entries and bytes
// of the policy could make it; dictionaries and windows end at WindowCap and a
// tar's extended headers at MetadataCap. Growth is judged against
// the whole input, which stands complete, so that the order of files does not
// matter; a zip's is that of all its members, as if they were one stream.
//
// # Speed and memory
//
// Inflating is what takes time. A tar's stream is decoded in one goroutine,
// into a ring of eight buffers, and written from those buffers in another. A
// zip's members are inflated and written by several. A file costs three system
// calls; a few dozen directories are kept open; a name costs a few words,
// because names are remembered as keyed hashes.
package extract
