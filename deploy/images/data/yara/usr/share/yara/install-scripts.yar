/*
  A beginning, not a rule set: what an install script of a package has no
  business with. Put your own rules beside this file.
*/
rule install_script_pipes_download_to_shell
{
  meta:
    description = "a lifecycle script of npm downloads something and runs it"
  strings:
    $script = /"(pre|post)?install"\s*:\s*"[^"]*(curl|wget)[^"]*\|\s*(ba|z|da)?sh/
  condition:
    $script
}

rule decodes_and_executes
{
  meta:
    description = "code is decoded and executed in one expression"
  strings:
    $js = /eval\s*\(\s*(atob\s*\(|Buffer\s*\.\s*from\s*\()/
    $py = /exec\s*\(\s*(base64\s*\.\s*b64decode|__import__\s*\(\s*['"]base64)/
  condition:
    any of them
}
