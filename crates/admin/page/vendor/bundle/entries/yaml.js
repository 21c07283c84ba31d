// Validation and formatting of YAML.

export { parseAllDocuments } from "yaml";
