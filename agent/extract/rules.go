package extract

// The rules, by their stable names: what wire.Refusal.Rule and wire.Note.Rule
// hold. Each has one sentence; the documentation lists them from here.
const (
	// RuleEmpty refuses an input of no bytes, and an archive of no entries.
	RuleEmpty = "empty"
	// RuleUnknownFormat refuses bytes that are no archive we read, a compressed stream that holds no tar among them.
	RuleUnknownFormat = "unknown-format"
	// RuleUnsupportedFormat refuses archives that are recognised but not read: 7z, rar, cab, xar, rpm, cpio, split zip.
	RuleUnsupportedFormat = "unsupported-format"
	// RuleUnsupportedMethod refuses a compression method or filter that we do not read.
	RuleUnsupportedMethod = "unsupported-method"
	// RulePolyglot refuses bytes that two readers would take for two different archives.
	RulePolyglot = "polyglot"
	// RuleTruncated refuses an archive that ends in the middle of something.
	RuleTruncated = "truncated"
	// RuleCorrupt refuses a compressed stream that does not decode.
	RuleCorrupt = "corrupt"
	// RuleChecksum refuses content whose checksum is not the one that was stored with it.
	RuleChecksum = "checksum"
	// RuleEncrypted refuses encrypted members, which nobody can look into.
	RuleEncrypted = "encrypted"
	// RuleTrailingData refuses bytes behind the end of an archive or a compressed stream, which some readers would read on into.
	RuleTrailingData = "trailing-data"

	// RuleLimitEntries refuses more entries than max_entries, or as many directories that no entry names.
	RuleLimitEntries = "limit-entries"
	// RuleLimitBytes refuses more written bytes than max_bytes.
	RuleLimitBytes = "limit-bytes"
	// RuleLimitFileBytes refuses a file larger than max_file_bytes.
	RuleLimitFileBytes = "limit-file-bytes"
	// RuleLimitPathBytes refuses a name longer than max_path_bytes.
	RuleLimitPathBytes = "limit-path-bytes"
	// RuleLimitDepth refuses a name with more components than max_depth.
	RuleLimitDepth = "limit-depth"
	// RuleLimitRatio refuses more bytes than max_ratio times those of the whole input, compressed. What
	// its order is does not matter, for the whole input's length is known before the first byte of it is read.
	RuleLimitRatio = "limit-ratio"
	// RuleLimitStream refuses a stream longer than all entries and bytes of the policy could make it.
	RuleLimitStream = "limit-stream"
	// RuleLimitWindow refuses a decoder that would need more than WindowCap of memory.
	RuleLimitWindow = "limit-window"
	// RuleLimitMetadata refuses extended headers longer than MetadataCap.
	RuleLimitMetadata = "limit-metadata"

	// RuleNameEmpty refuses an entry that is not a directory and has no name.
	RuleNameEmpty = "name-empty"
	// RuleNameAbsolute refuses names that begin at a root or at a drive, and those that do once components were taken from their front.
	RuleNameAbsolute = "name-absolute"
	// RuleNameTraversal refuses names with a ".." component.
	RuleNameTraversal = "name-traversal"
	// RuleNameBackslash refuses names with a backslash, which is a separator to some.
	RuleNameBackslash = "name-backslash"
	// RuleNameNUL refuses names with a NUL byte, where some readers stop, or with bytes behind their end.
	RuleNameNUL = "name-nul"
	// RuleNameTooLong refuses components longer than 255 bytes.
	RuleNameTooLong = "name-too-long"
	// RuleNameControl renames names with control characters, which become %XX.
	RuleNameControl = "name-control"
	// RuleNameEncoding renames names that are not UTF-8, whose stray bytes become %XX.
	RuleNameEncoding = "name-encoding"
	// RuleNameReserved renames names at the work directory's top that belong to the agent.
	RuleNameReserved = "name-reserved"

	// RuleDuplicate answers a second entry of one name as the policy says.
	RuleDuplicate = "duplicate"
	// RuleCaseClash answers a name that differs from another by letter case or Unicode form alone, as the policy says.
	RuleCaseClash = "case-clash"
	// RuleStripClash notes a tar's entry that comes to stand in the place of another once the first component is taken away, as npm does; both are kept.
	RuleStripClash = "strip-clash"
	// RuleTypeClash answers a name that is claimed as a directory and as something else, as the policy says for duplicates.
	RuleTypeClash = "type-clash"
	// RuleThroughSymlink refuses an entry whose parent the archive declared a symbolic link.
	RuleThroughSymlink = "through-symlink"

	// RuleSpecialFile refuses devices, FIFOs and sockets.
	RuleSpecialFile = "special-file"
	// RuleSymlinkTarget refuses symbolic links with an empty, too long or unprintable target, or with a backslash in it.
	RuleSymlinkTarget = "symlink-target"
	// RuleSymlinkOutside refuses symbolic links that lead out of the archive's directory, alone or through each other.
	RuleSymlinkOutside = "symlink-outside"
	// RuleSymlinkAbsolute leaves out absolute symbolic links, which are ordinary in system packages and carry no content.
	RuleSymlinkAbsolute = "symlink-absolute"
	// RuleSymlinkDangling keeps the text of a zip's symbolic link to nowhere as a file, which is what many installers make of it.
	RuleSymlinkDangling = "symlink-dangling"
	// RuleHardlinkTarget refuses hard links to anything but a file extracted before.
	RuleHardlinkTarget = "hardlink-target"
	// RuleHardlinkSelf leaves out hard links of a name to itself.
	RuleHardlinkSelf = "hardlink-self"
	// RuleModeClamped counts entries that lost a set-id or sticky bit.
	RuleModeClamped = "mode-clamped"
	// RuleTypeAmbiguous refuses entries that are a directory to one reader and a file to another.
	RuleTypeAmbiguous = "type-ambiguous"

	// RuleTarHeader refuses a tar header that does not parse, whose checksum is wrong, or that some readers pass over or find another name in.
	RuleTarHeader = "tar-header"
	// RuleTarType refuses tar entry types with no one meaning.
	RuleTarType = "tar-type"
	// RuleTarSize refuses sizes that two tar readers would read differently.
	RuleTarSize = "tar-size"
	// RuleTarConflict refuses extended headers that repeat or contradict each other.
	RuleTarConflict = "tar-conflict"
	// RuleTarPAX refuses malformed PAX records, and those in which some readers see others.
	RuleTarPAX = "tar-pax"
	// RuleTarGlobal leaves out a PAX global header, and refuses one that would rename or resize entries.
	RuleTarGlobal = "tar-global"
	// RuleTarLabel leaves out a GNU volume label.
	RuleTarLabel = "tar-label"
	// RuleTarSparse refuses sparse files, whose maps readers disagree on.
	RuleTarSparse = "tar-sparse"

	// RuleArHeader refuses a malformed ar member header.
	RuleArHeader = "ar-header"

	// RuleZipEnd refuses a zip with no single, consistent end record.
	RuleZipEnd = "zip-end"
	// RuleZipDirectory refuses a central directory that does not parse to exactly its declared entries.
	RuleZipDirectory = "zip-directory"
	// RuleZipPrefix refuses data before the first member.
	RuleZipPrefix = "zip-prefix"
	// RuleZipGap refuses data between members, where a streaming reader would find others.
	RuleZipGap = "zip-gap"
	// RuleZipOverlap refuses members that share bytes.
	RuleZipOverlap = "zip-overlap"
	// RuleZipMismatch refuses members whose local header says other than the central directory.
	RuleZipMismatch = "zip-mismatch"
	// RuleZipSize refuses members whose content is longer or shorter than declared.
	RuleZipSize = "zip-size"

	// RuleNestedMissing refuses an archive that lacks a member which the manifest asks to unpack.
	RuleNestedMissing = "nested-missing"
)
